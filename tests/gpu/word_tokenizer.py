"""A tokenizer of plain words, for models whose weights are random."""

from collections.abc import Mapping
from typing import Any


def tokenizer(words: int, marks: Mapping[str, int]) -> dict[str, Any]:
    """A word-level tokenizer.json of w0, w1 and so on, and of marks in the order of their ids."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": text, "special": True} | plain
            for text, number in marks.items()
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {f"w{number}": number for number in range(words)} | dict(marks),
            "unk_token": "w0",
        },
    }
