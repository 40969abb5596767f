"""A user of the endpoint: `chat.py BASE_URL MODEL`, with the official client, as anyone would.

It stands alone: the demo calls it from outside and runs it, from a ConfigMap, in a pod.
"""

from __future__ import annotations

import sys
import time

from openai import OpenAI
from openai.types.chat import ChatCompletionUserMessageParam

QUESTION: ChatCompletionUserMessageParam = {"role": "user", "content": "Tell me about the node."}
TOKENS = 16


def talk(url: str, model: str) -> None:
    """Ask once in one piece and once streamed; SystemExit if either brings no text."""
    with OpenAI(base_url=url, api_key="none", timeout=60) as client:
        started = time.monotonic()
        whole = client.chat.completions.create(model=model, messages=[QUESTION], max_tokens=TOKENS)
        text = whole.choices[0].message.content
        if not text:
            raise SystemExit(f"{url} answered without text: {whole}")
        count = whole.usage.completion_tokens if whole.usage else 0
        print(f"in one piece: {count} tokens in {time.monotonic() - started:.2f} s: {text!r}")
        print("streamed:     ", end="", flush=True)
        pieces = _streamed(client, model)
        print(f" ({pieces} pieces)", flush=True)
        if pieces < 2:
            raise SystemExit(f"{url} did not stream: {pieces} pieces with text")


def _streamed(client: OpenAI, model: str) -> int:
    """Print each piece as it comes; the number of pieces with text."""
    pieces = 0
    stream = client.chat.completions.create(
        model=model, messages=[QUESTION], max_tokens=TOKENS, stream=True
    )
    for chunk in stream:
        piece = chunk.choices[0].delta.content if chunk.choices else None
        if piece:
            pieces += 1
            print(repr(piece)[1:-1], end="|", flush=True)
    return pieces


if __name__ == "__main__":
    talk(*sys.argv[1:3])
