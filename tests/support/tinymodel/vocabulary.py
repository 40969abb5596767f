"""The tokenizer of the tiny models: byte-level BPE trained on sentences made from a word list."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, Final

from tests.support.tinymodel.architectures import VOCABULARY
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

PAD: Final = "<|endoftext|>"
START: Final = "<|im_start|>"
END: Final = "<|im_end|>"
CHAT_TEMPLATE: Final = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for c in m['content'] %}{{ c['text'] }}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SENTENCES: Final = 1500
WORDS: Final = (
    "the of and to in is that for it as was with be by on not he his but at are this have from or "
    "had an they which one you were all her she there would their we him been has when who will no "
    "more if out so up said what its about than into them can only other time new some could these "
    "two may first then do any like my now over such our man me even most made after also well "
    "many must before years where back through much way down should because long just people own "
    "good each under last never while same another here come both during great old men between "
    "world life being against might without house once himself state since came large again things "
    "use small night until does few often number always kind half server model token request cache "
    "block prefix engine worker queue batch latency memory tensor kernel layer head attention "
    "weight expert router gateway cluster node pod volume image container health metric trace "
    "region zone bucket object key value tier store load offload prefetch evict schedule drain "
    "restart upgrade rollback version config secret license"
)


def train() -> Tokenizer:
    """A tokenizer with exactly VOCABULARY tokens; every id that a model can sample decodes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_sentences(), trainer)
    missing = range(tokenizer.get_vocab_size(), VOCABULARY)
    tokenizer.add_tokens([f" tok{number:04d}" for number in missing])
    return tokenizer


def tokenizer_config(max_len: int) -> dict[str, Any]:
    """Content of tokenizer_config.json; `max_len` in tokens."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "model_max_length": max_len,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def _sentences() -> Iterator[str]:
    chance, known = random.Random(1234), WORDS.split()
    for _ in range(SENTENCES):
        words = " ".join(chance.choice(known) for _ in range(40)).capitalize()
        record = {
            chance.choice(known): chance.randrange(1000),
            chance.choice(known): [chance.choice(known)],
        }
        yield f"{words}. {json.dumps(record)}\n"
