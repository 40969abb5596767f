"""Inkling's attention kernel on an H200, KV cache in pieces: right, and how fast.

Usage: python tests/gpu/split_kernel.py OUT.json [SECONDS]

Needs vLLM's CUDA wheel and PyTorch, no network. Every count of pieces is compared with a reference
in float32 over the same keys, for each batch, number of query tokens, number of KV heads and length
of context; then timed as a CUDA graph. Two more cases have requests of very different lengths and
the empty ones that pad a graph. Ends with status 1 if a result is wrong.
"""

import dataclasses
import importlib
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kindling_runtime.plugins.split_policy import split_count

torch: Any = importlib.import_module("torch")

PAGE: Final = 32
EXTENT: Final = 1024
WIDTH: Final = 128
SHARED: Final = 8
LONGEST: Final = 131_072
"""What the engine would allow: the count depends on it, not on the context that is there."""
COUNTS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
CONTEXTS: Final = (1_024, 8_192, 100_000)
UNEVEN: Final = (1, 127, 128, 129, 1_000, 8_192, 65_537, 100_000)
TOLERANCE: Final = 5e-3
"""Of ‖result - reference‖ / ‖reference‖ of a token: bf16 gives 1e-3 to 3e-3."""
WORSE: Final = 2.0
"""How much larger the error may be than that of one piece."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call: `contexts` of its requests of `queries` tokens each, and `padding` empty ones."""

    kv: int
    queries: int
    contexts: tuple[int, ...]
    padding: int = 0

    @property
    def batch(self) -> int:
        return len(self.contexts) + self.padding

    @property
    def planned(self) -> int:
        """Pieces that the plugin takes, of query tokens rounded up as vLLM does."""
        return split_count(
            batch=self.batch,
            query=1 << (self.queries - 1).bit_length(),
            heads=self.kv * SHARED,
            kv_heads=self.kv,
            keys=LONGEST,
        )


class Inputs:
    """Random tensors of a case, with the pages of the requests scattered over `pool`."""

    def __init__(self, case: Case, pool: Any) -> None:
        heads, tokens = case.kv * SHARED, len(case.contexts) * case.queries
        self.case = case
        self.keys, self.values = pool.split(WIDTH, dim=-1)
        pages = max(-(-context // PAGE) for context in case.contexts)
        free = torch.randperm(pool.shape[0] - 1, device="cuda", dtype=torch.int32) + 1
        used = free[: len(case.contexts) * pages].view(-1, pages)
        self.table = torch.zeros(case.batch, pages, device="cuda", dtype=torch.int32)
        self.table[: len(case.contexts)] = used
        lengths = [*case.contexts, *([0] * case.padding)]
        self.lengths = torch.tensor(lengths, device="cuda", dtype=torch.int32)
        starts = [min(n * case.queries, tokens) for n in range(case.batch + 1)]
        self.starts = torch.tensor(starts, device="cuda", dtype=torch.int32)
        self.query = torch.randn(tokens, heads, WIDTH, device="cuda", dtype=torch.bfloat16) * 8
        self.bias = torch.randn(tokens, heads, EXTENT, device="cuda", dtype=torch.bfloat16)
        self.out = torch.empty_like(self.query)

    def run(self, kernel: Any, count: int) -> None:
        """One call, into `out`."""
        kernel(
            self.query,
            self.keys,
            self.values,
            block_table=self.table,
            cache_seqlens=self.lengths,
            cu_seqlens_q=self.starts,
            max_seqlen_q=1 << (self.case.queries - 1).bit_length(),
            softmax_scale=1 / WIDTH,
            causal=True,
            window_size=(-1, -1),
            rel_extent=EXTENT,
            rel_logits=self.bias,
            num_splits=count,
            out=self.out,
        )

    def reference(self) -> Any:
        """The same in float32, request by request."""
        each = [self._of_one(number) for number in range(len(self.case.contexts))]
        return torch.cat(each)

    def _of_one(self, number: int) -> Any:
        context, queries, kv = self.case.contexts[number], self.case.queries, self.case.kv
        pages = self.table[number, : -(-context // PAGE)].long()
        key = self.keys[pages].reshape(-1, kv, WIDTH)[:context].float()
        value = self.values[pages].reshape(-1, kv, WIDTH)[:context].float()
        rows = slice(number * queries, (number + 1) * queries)
        query = self.query[rows].float().view(queries, kv, SHARED, WIDTH)
        scores = torch.einsum("qkgd,ckd->qkgc", query, key) / WIDTH
        at = torch.arange(queries, device="cuda") + context - queries
        distance = at[:, None] - torch.arange(context, device="cuda")[None]
        near = ((distance >= 0) & (distance < EXTENT))[:, None, None]
        bias = self.bias[rows].float().view(queries, kv, SHARED, EXTENT)
        where = distance.clamp(0, EXTENT - 1)[:, None, None].expand(-1, kv, SHARED, -1)
        scores += torch.where(near, bias.gather(3, where), 0.0)
        scores.masked_fill_((distance < 0)[:, None, None], float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        return torch.einsum("qkgc,ckd->qkgd", weights, value).reshape(queries, kv * SHARED, WIDTH)


def error(inputs: Inputs, kernel: Any, count: int, reference: Any) -> float:
    """The largest ‖result - reference‖ / ‖reference‖ of a token; infinite if anything is NaN,
    which is what was not written."""
    inputs.out.fill_(float("nan"))
    inputs.run(kernel, count)
    off = (inputs.out.float() - reference).flatten(1).norm(dim=1)
    found = (off / reference.flatten(1).norm(dim=1)).nan_to_num(nan=float("inf")).max()
    return float(found.item())


def wrong(row: dict[str, Any]) -> bool:
    """Whether some count of pieces misses the reference."""
    errors: dict[int, float] = row["errors"]
    return any(each > min(TOLERANCE, WORSE * errors[1]) for each in errors.values())


def microseconds(inputs: Inputs, kernel: Any, count: int) -> float:
    """Median of replays of a CUDA graph."""
    inputs.run(kernel, count)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inputs.run(kernel, count)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(10)]
    graph.replay()
    for mark in marks:
        mark.record()
        graph.replay()
    torch.cuda.synchronize()
    spans = sorted(a.elapsed_time(b) for a, b in itertools.pairwise(marks))
    return float(spans[len(spans) // 2] * 1e3)


def cases(kv: int) -> Iterator[Case]:
    """Uneven ones first; then the longest context last, where one piece takes milliseconds."""
    for queries in (1, 5):
        lengths = tuple(max(queries, length) for length in UNEVEN)
        yield Case(kv=kv, queries=queries, contexts=lengths)
        yield Case(kv=kv, queries=queries, contexts=lengths[:3], padding=5)
    for context, batch, queries in itertools.product(CONTEXTS, (1, 2, 4, 8, 16, 32, 64), (1, 2, 5)):
        yield Case(kv=kv, queries=queries, contexts=(context,) * batch)


def measure(kernel: Any, kv: int, deadline: float) -> Iterator[dict[str, Any]]:
    """One row for each case, until time is over."""
    pages = 64 * -(-CONTEXTS[-1] // PAGE) + 1
    pool = torch.empty(pages, PAGE, kv, 2 * WIDTH, device="cuda", dtype=torch.bfloat16).normal_()
    for case in cases(kv):
        if time.monotonic() > deadline:
            return
        inputs = Inputs(case, pool)
        reference = inputs.reference()
        errors = {count: error(inputs, kernel, count, reference) for count in COUNTS}
        times = {count: microseconds(inputs, kernel, count) for count in COUNTS}
        yield dataclasses.asdict(case) | {
            "batch": case.batch, "planned": case.planned, "errors": errors, "microseconds": times
        }  # fmt: skip


def line(row: dict[str, Any]) -> str:
    """One row of a table: the case, the stock count's time, the plugin's, the best one's."""
    times: dict[int, float] = row["microseconds"]
    best = min(times, key=lambda count: times[count])
    context = "uneven" if len(set(row["contexts"])) > 1 else f"{row['contexts'][0]}"
    planned = row["planned"]
    worst = max(row["errors"].values())
    cells = (
        row["kv"], row["batch"], row["queries"], context, f"{times[1]:.0f}",
        f"{times[planned]:.0f} ({planned})", f"{times[best]:.0f} ({best})",
        f"{row['errors'][1]:.1e}", f"{worst:.1e}",
    )  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> int:
    """Print the table, write all numbers; the exit status."""
    module: Any = importlib.import_module("vllm.models.inkling.nvidia.ops.fa4_rel_attention")
    kernel = module.InklingFA4RelAttentionKernel.kernel
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    begun, seconds = time.monotonic(), float(sys.argv[2]) if len(sys.argv) > 2 else 400.0
    rows: list[dict[str, Any]] = []
    print("| KV heads | batch | queries | context | 1 piece | planned | best | error 1 | worst |")
    print("|---|---|---|---|---|---|---|---|---|")
    for part, kv in enumerate((1, 8), start=1):
        for row in measure(kernel, kv, begun + seconds * part / 2):
            rows.append(row)
            print(line(row), flush=True)
            Path(sys.argv[1]).write_text(json.dumps(rows), encoding="utf-8")
    missed, whole = sum(map(wrong, rows)), 2 * len(list(cases(1)))
    print(f"{len(rows)} of {whole} cases in {time.monotonic() - begun:.0f} s, {missed} wrong")
    return 1 if missed or len(rows) < whole else 0


if __name__ == "__main__":
    sys.exit(main())
