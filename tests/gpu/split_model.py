"""The 12-layer Inkling in vLLM on an H200: log-probabilities and times of one engine, as JSON.

Usage: python tests/gpu/split_model.py FOLDER OUT.json [--drafts N] [--narrow] [--seconds N]

FOLDER is of make_inkling.py. The plugins of kindling-runtime come through vLLM's own entry
point; KINDLING_PLUGIN_SPLIT_KV=0 makes it the stock engine. split_compare.py compares two.
"""

import argparse
import importlib
import json
import os
import random
import re
import statistics
import time
import zlib
from collections import Counter
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
SHARPNESS: Final = 34.0
"""Weight of the norm of queries. Scores are q·k / 128 of vectors of 128 entries of variance 1, so
they vary by 0.09 times this: 3, with which few keys of 100,000 have most of the attention."""
GAIN: Final = {"full": 6.0, "window": 0.5}
"""Of attention's output by the kind of layer, so that the full layers outweigh the embedding."""
SPREAD: Final = 0.2
"""Standard deviation of logits: the largest stay below 1, where a step of bf16 is 0.004."""
TAPS: Final = 0.3
DRAWN: Final = ("qkvr", "wo_ud", "rel_logits_proj", "sconv", "embed_tokens", "lm_head")

ALONE: Final = (1_000, 9_000, 32_800, 100_000)
UNEVEN: Final = (600, 1_500, 3_000, 5_000, 9_000, 16_000, 24_000, 33_000)
MANY: Final = (1_200,) * REQUESTS
WIDE: Final = ((32_768,) * 8, (8_192,) * 64)
TIMED: Final = (
    *((context,) for context in (1_024, 8_192, 32_768, 100_000)),
    *((context,) * 8 for context in (1_024, 8_192)),
    (2_048,) * 15 + (100_000,),
    (1_024,) * 64,
    *WIDE,
    (100_000,) * 8,
)
"""Contexts of the requests of each timed batch. The kernels of the last are listed too."""
TIMED_STEPS: Final = 128
LISTED_STEPS: Final = 8

Prompt = list[int]
Answer = dict[str, Any]


def deviation(name: str, shape: Sequence[int], text: dict[str, Any]) -> float | None:
    """Of the weight `name`, so that each projection of numbers of variance 1 has variance 1, but
    for GAIN and SPREAD; None leaves what vLLM drew, ±0.001, as the experts and their scales: a
    token that changes its expert would hide what is compared."""
    kind = next((each for each in DRAWN if each in name), None)
    if kind == "embed_tokens":
        return 1.0
    if kind == "sconv":
        return TAPS
    if kind == "rel_logits_proj":
        return float(shape[0] ** -0.5)
    if kind == "lm_head":
        return float(SPREAD * text["logits_mup_width_multiplier"] * shape[-1] ** -0.5)
    if kind == "wo_ud":
        layer = int(re.findall(r"layers\.(\d+)\.", name)[0])
        gain = GAIN["window" if layer in text["local_layer_ids"] else "full"]
        return float(gain * shape[-1] ** -0.5)
    return None if kind is None else float(shape[-1] ** -0.5)


class Launches:
    """Counts replays of CUDA graphs, and launches of the attention kernel outside them."""

    def __init__(self) -> None:
        torch: Any = importlib.import_module("torch")
        module: Any = importlib.import_module("vllm.models.inkling.nvidia.ops.fa4_rel_attention")
        self.seen: Counter[str] = Counter()
        self._count(torch.cuda.CUDAGraph, "replay")
        self._count(module.InklingFA4RelAttentionKernel, "__call__")

    def _count(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            self.seen[name] += 1
            return original(*args, **kwargs)

        setattr(owner, name, counting)

    def per_step(self, steps: int) -> dict[str, float]:
        """Since the last call."""
        graphs, eager = self.seen["replay"] / steps, self.seen["__call__"] / steps
        self.seen.clear()
        return {"graphs": graphs, "eager": eager}


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
        self._core = self.engine.llm_engine.engine_core.engine_core
        self._launches = Launches()

    def make_context_matter(self, text: dict[str, Any]) -> None:
        """Draw the target's weights anew in place, so that captured graphs see it.

        vLLM's own are within 0.001, and of the same numbers in all weights of a shape: attention
        is an average of all keys, and the last token decides alone."""
        torch: Any = importlib.import_module("torch")
        model = self._core.model_executor.driver_worker.worker.model_runner.model
        met = set()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                wanted = deviation(name, weight.shape, text)
                if "norm" in name:
                    weight.fill_(SHARPNESS if "q_norm" in name else 1.0)
                elif wanted is not None:
                    source = torch.Generator(weight.device).manual_seed(zlib.crc32(name.encode()))
                    weight.normal_(0.0, wanted, generator=source)
                    met |= {kind for kind in DRAWN if kind in name}
        if met != set(DRAWN):
            raise RuntimeError(f"vLLM names its weights otherwise: {met} of {DRAWN} were found")
        self.engine.reset_prefix_cache()

    def parameters(self, tokens: int, logprobs: int | None = None) -> Any:
        """Of a greedy answer of exactly so many tokens."""
        return self._sampling(
            max_tokens=tokens,
            min_tokens=tokens,
            ignore_eos=True,
            temperature=0.0,
            detokenize=False,
            logprobs=logprobs,
        )

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
            for each in self.engine.generate(
                _asked(prompts), self.parameters(STEPS, logprobs=20), use_tqdm=False
            )
        ]

    def timed(self, contexts: Sequence[int], seed: int, listed: bool) -> dict[str, Any]:
        """Milliseconds of a decoding step of requests of `contexts`, once all of them decode."""
        prompts = [_prompt(context, seed + number) for number, context in enumerate(contexts)]
        asked = self.engine.enqueue(_asked(prompts), self.parameters(4_096), use_tqdm=False)
        while min(self._produced(), default=0) < 2 or len(self._produced()) < len(contexts):
            self.engine.llm_engine.step()
        self._advance(8)
        self._launches.per_step(1)
        spans = sorted(self._advance(TIMED_STEPS))
        row = {
            "contexts": list(contexts),
            "milliseconds": statistics.median(spans) * 1e3,
            "mean": statistics.fmean(spans) * 1e3,
            "tenth_slowest": spans[len(spans) * 9 // 10] * 1e3,
        } | self._launches.per_step(TIMED_STEPS)
        if listed:
            row["kernels"] = self._kernels()
        self.engine.llm_engine.abort_request(asked, internal=True)
        return row

    def _produced(self) -> list[int]:
        """Tokens of each running request so far, without those in flight."""
        return [each.num_output_tokens for each in self._core.scheduler.running]

    def _advance(self, steps: int) -> list[float]:
        """Seconds between results that brought tokens: the scheduler is a step ahead of the GPU,
        so one call does not take as long as one step."""
        spans: list[float] = []
        produced, begun = sum(self._produced()), time.perf_counter()
        while len(spans) < steps:
            self.engine.llm_engine.step()
            if sum(self._produced()) > produced:
                now = time.perf_counter()
                spans.append(now - begun)
                produced, begun = sum(self._produced()), now
        return spans

    def _kernels(self) -> list[tuple[str, float, float]]:
        """The longest kernels: name, launches a step and microseconds a step."""
        torch: Any = importlib.import_module("torch")
        profiler: Any = importlib.import_module("torch.profiler")
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as seen:
            self._advance(LISTED_STEPS)
            torch.cuda.synchronize()
        events = sorted(seen.key_averages(), key=lambda each: -each.self_device_time_total)
        return [
            (each.key[:160], each.count / LISTED_STEPS, each.self_device_time_total / LISTED_STEPS)
            for each in events[:12]
        ]

    def counters(self) -> dict[str, float]:
        """vLLM's own counters of drafts and preemptions."""
        wanted = ("spec_decode_num_accepted_tokens", "spec_decode_num_drafts", "num_preemptions")
        metrics = {each.name: getattr(each, "value", None) for each in self.engine.get_metrics()}
        return {name: metrics.get(f"vllm:{name}", 0.0) or 0.0 for name in wanted}


def _prompt(tokens: int, seed: int) -> Prompt:
    """Of a seed that is not negative: Random(-1) is Random(1)."""
    numbers = random.Random(seed)
    return [numbers.randrange(10, 199_000) for _ in range(tokens)]


def _asked(prompts: Sequence[Prompt]) -> list[dict[str, Prompt]]:
    return [{"prompt_token_ids": prompt} for prompt in prompts]


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
    for tokens in ALONE:
        half, other = tokens // 2, _prompt(tokens, 10**9 + tokens)
        other[half:] = _prompt(tokens, tokens)[half:]
        found[f"other {tokens}"] = subject.answers([other])
    return found


def times(subject: Subject, narrow: bool, deadline: float) -> Iterator[dict[str, Any]]:
    """Milliseconds of each timed batch, until time is over."""
    for number, contexts in enumerate(TIMED):
        if time.monotonic() < deadline and not (narrow and contexts in WIDE):
            row = subject.timed(contexts, 10**7 * (number + 1), contexts is TIMED[-1])
            shown = {key: row[key] for key in row if key != "contexts"}
            print(f"{len(contexts)} x {min(contexts)} to {max(contexts)}: {shown}", flush=True)
            yield row


def main() -> None:
    """Measure, write, print what became of the plugins."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("out", type=Path)
    parser.add_argument("--drafts", type=int, default=0)
    parser.add_argument("--narrow", action="store_true", help="without the batches of WIDE")
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
    config = json.loads((Path(given.folder) / "config.json").read_text(encoding="utf-8"))
    subject.make_context_matter(config["text_config"])
    result["answers"] = agreement(subject)
    given.out.write_text(json.dumps(result), encoding="utf-8")
    result["times"] = []
    for row in times(subject, given.narrow, deadline):
        result["times"].append(row)
        given.out.write_text(json.dumps(result), encoding="utf-8")
    result |= {"compiled_at_end": compiled(), "counters": subject.counters()}
    given.out.write_text(json.dumps(result), encoding="utf-8")
    print(json.dumps({key: result[key] for key in ("compiled_at_end", "counters")}), flush=True)


if __name__ == "__main__":
    main()
