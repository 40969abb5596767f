"""The 12-layer Inkling in vLLM on an H200: log-probabilities and times of one engine, as JSON.

Usage: python tests/gpu/split_model.py FOLDER OUT.json [--drafts N] [--wide] [--seconds N]

FOLDER is of make_inkling.py. The plugins of kindling-runtime come through vLLM's own entry
point; KINDLING_PLUGIN_SPLIT_KV=0 makes it the stock engine. split_compare.py compares two.
"""

import argparse
import importlib
import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from kindling_runtime.plugins import record, registry

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # the engine in this process
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")  # its kernels would be compiled first

REQUESTS: Final = 64
BATCHED: Final = 4_096
LONGEST: Final = 131_072
STEPS: Final = 12
SCALE: Final = 30.0
"""Dummy weights are within 0.001; with 30 times that and norms of 1 the context matters."""
ALONE: Final = (1_000, 9_000, 32_800, 100_000)
UNEVEN: Final = (600, 1_500, 3_000, 5_000, 9_000, 16_000, 24_000, 33_000)
MANY: Final = (1_200,) * REQUESTS
TIMED: Final = tuple(
    (batch, context) for batch in (1, 8) for context in (1024, 8192, 32768, 100_000)
)
WIDE: Final = ((64, 1024), (64, 8192))

Prompt = list[int]
Answer = dict[str, Any]


class Subject:
    """An engine and what it is asked."""

    def __init__(self, folder: str, drafts: int) -> None:
        vllm: Any = importlib.import_module("vllm")
        speculation = {"method": "mtp", "num_speculative_tokens": drafts} if drafts else None
        begun = time.monotonic()
        self.engine = vllm.LLM(
            model=folder,
            load_format="dummy",
            language_model_only=True,
            max_num_seqs=REQUESTS,
            max_model_len=LONGEST,
            max_num_batched_tokens=BATCHED,
            gpu_memory_utilization=0.9,
            enable_prefix_caching=True,
            speculative_config=speculation,
            disable_log_stats=False,
        )
        self.start_seconds = time.monotonic() - begun
        self._sampling = vllm.SamplingParams

    def make_context_matter(self) -> None:
        """Scale the target's weights in place, so that captured graphs see it."""
        torch: Any = importlib.import_module("torch")
        core = self.engine.llm_engine.engine_core.engine_core
        model = core.model_executor.driver_worker.worker.model_runner.model
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if not weight.is_floating_point():
                    continue
                if "norm" in name and weight.dim() == 1:
                    weight.fill_(1.0)
                elif weight.dim() > 1:
                    weight.mul_(SCALE)
        self.engine.reset_prefix_cache()

    def generate(self, prompts: Sequence[Prompt], tokens: int, logprobs: int | None = None) -> Any:
        """All prompts at once, greedily, exactly `tokens` each."""
        sampling = self._sampling(
            max_tokens=tokens,
            min_tokens=tokens,
            ignore_eos=True,
            temperature=0.0,
            detokenize=False,
            logprobs=logprobs,
        )
        asked = [{"prompt_token_ids": prompt} for prompt in prompts]
        return self.engine.generate(asked, sampling, use_tqdm=False)

    def answers(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """Tokens of each prompt, and the 20 likeliest with their log-probability at each step."""
        return [
            {
                "tokens": list(each.outputs[0].token_ids),
                "steps": [
                    {str(token): entry.logprob for token, entry in step.items()}
                    for step in each.outputs[0].logprobs
                ],
            }
            for each in self.generate(prompts, STEPS, logprobs=20)
        ]

    def milliseconds(self, batch: int, context: int, seed: int) -> float:
        """Of one decoding step of a batch, from two lengths of answer, prompts in the cache."""
        prompts = [_prompt(context, seed + number) for number in range(batch)]
        self.generate(prompts, 1)
        spans = []
        for tokens in (8, 8, 72):
            begun = time.monotonic()
            self.generate(prompts, tokens)
            spans.append(time.monotonic() - begun)
        return (spans[2] - spans[1]) / 64 * 1e3

    def counters(self) -> dict[str, float]:
        """vLLM's own counters of drafts and preemptions."""
        wanted = ("spec_decode_num_accepted_tokens", "spec_decode_num_drafts", "num_preemptions")
        metrics = {each.name: getattr(each, "value", None) for each in self.engine.get_metrics()}
        return {name: metrics.get(f"vllm:{name}", 0.0) or 0.0 for name in wanted}


def _prompt(tokens: int, seed: int) -> Prompt:
    numbers = random.Random(seed)
    return [numbers.randrange(10, 199_000) for _ in range(tokens)]


def compiled() -> dict[str, int]:
    """Kernels of FlashAttention 4 that this process has."""
    interface: Any = importlib.import_module("vllm.vllm_flash_attn.cute.interface")
    return {
        "forward": len(interface._flash_attn_fwd.compile_cache.cache),
        "combine": len(interface._flash_attn_fwd_combine.compile_cache.cache),
    }


def agreement(subject: Subject) -> dict[str, list[Answer]]:
    """Answers by the name of what was asked; the last is of prompts with another first half, which
    shows how far a context that matters moves them."""
    found = {f"alone {tokens}": subject.answers([_prompt(tokens, tokens)]) for tokens in ALONE}
    found["uneven 8"] = subject.answers([_prompt(tokens, 7 * tokens) for tokens in UNEVEN])
    found["many 64"] = subject.answers(
        [_prompt(tokens, 10**6 + number) for number, tokens in enumerate(MANY)]
    )
    for tokens in ALONE[:-1]:
        other = _prompt(tokens, -tokens)[: tokens // 2] + _prompt(tokens, tokens)[tokens // 2 :]
        found[f"other {tokens}"] = subject.answers([other])
    return found


def times(subject: Subject, wide: bool, deadline: float) -> Iterator[dict[str, float]]:
    """Milliseconds of each timed batch and context, until time is over."""
    for number, (batch, context) in enumerate((*TIMED, *(WIDE if wide else ()))):
        if time.monotonic() < deadline:
            spent = subject.milliseconds(batch, context, 10**7 * (number + 1))
            print(f"batch {batch} context {context}: {spent:.2f} ms a step", flush=True)
            yield {"batch": batch, "context": context, "milliseconds": spent}


def main() -> None:
    """Measure, write, print what became of the plugins."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("out", type=Path)
    parser.add_argument("--drafts", type=int, default=0)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--seconds", type=float, default=250.0)
    given = parser.parse_args()
    deadline = time.monotonic() + given.seconds

    record.forget(record.folder_of(os.environ))
    subject = Subject(given.folder, given.drafts)
    plugins = record.read(record.folder_of(os.environ), registry.NAMES)
    result: dict[str, Any] = {
        "drafts": given.drafts,
        "plugins": {each.name: [each.state, each.why] for each in plugins},
        "start_seconds": subject.start_seconds,
        "compiled_at_start": compiled(),
    }
    print(json.dumps(result), flush=True)
    subject.make_context_matter()
    result["answers"] = agreement(subject)
    given.out.write_text(json.dumps(result), encoding="utf-8")
    result["times"] = []
    for row in times(subject, given.wide, deadline):
        result["times"].append(row)
        given.out.write_text(json.dumps(result), encoding="utf-8")
    result |= {"compiled_at_end": compiled(), "counters": subject.counters()}
    given.out.write_text(json.dumps(result), encoding="utf-8")
    print(json.dumps({key: result[key] for key in ("compiled_at_end", "counters")}), flush=True)


if __name__ == "__main__":
    main()
