"""Two results of split_model.py: do they agree, and how fast is each.

Usage: python tests/gpu/split_compare.py STOCK.json PLUGIN.json

Ends with status 1 if the plugin was not in the state that it should have, if a kernel was compiled
after the start, or if the two differ by more than rounding does.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any, Final

NAME: Final = "split-kv"
ROUNDING: Final = 0.016
"""Of a log-probability: what two ways of the same computation in bf16 were seen to differ by."""
MARGIN: Final = 5.0
"""How many times more another context must move it, or the comparison proves nothing."""


def distance(one: dict[str, Any], two: dict[str, Any]) -> tuple[int, float]:
    """Steps compared, and the largest difference of a log-probability among the tokens that both
    have; steps after the first unequal token are of other texts."""
    steps, largest = 0, 0.0
    for number, (a, b) in enumerate(zip(one["steps"], two["steps"], strict=True)):
        if one["tokens"][:number] != two["tokens"][:number]:
            break
        steps += 1
        common = a.keys() & b.keys()
        apart = [abs(a[token] - b[token]) for token in common]
        if len(common) < len(a) // 2 or any(map(isnan, apart)):
            return steps, float("inf")
        largest = max([largest, *apart])
    return steps, largest


def moved_by_another_context(result: dict[str, Any]) -> float:
    """The smallest change of the first step's log-probabilities that another first half made."""
    answers = result["answers"]
    changes: list[float] = []
    for name in answers:
        if name.startswith("other "):
            (here,), (there,) = answers[name], answers[name.replace("other", "alone")]
            a: dict[str, float] = here["steps"][0]
            b: dict[str, float] = there["steps"][0]
            # What left the 20 likeliest changed by at least what keeps it out of them.
            low = min(a.values())
            changes.append(max(abs(a.get(token, low) - b[token]) for token in b))
    return min(changes)


def problems(stock: dict[str, Any], plugin: dict[str, Any]) -> Iterator[str]:
    """What is wrong; prints the comparison."""
    for result, state in ((stock, "Off"), (plugin, "On")):
        if result["plugins"][NAME][0] != state:
            yield f"{NAME} should be {state} and is {result['plugins'][NAME]}"
        if result.get("compiled_at_end") != result["compiled_at_start"]:
            at_end = result.get("compiled_at_end")
            yield f"{state}: compiled while it served, or cut short: {at_end}"
    control = moved_by_another_context(stock)
    print(f"another first half of the prompt moves log-probabilities by {control:.3f} at least")
    worst = 0.0
    for name, answers in stock["answers"].items():
        both = list(zip(answers, plugin["answers"][name], strict=True))
        equal = sum(a["tokens"] == b["tokens"] for a, b in both)
        found = [distance(a, b) for a, b in both]
        steps, largest = sum(each[0] for each in found), max(each[1] for each in found)
        worst = max(worst, largest)
        print(f"{name}: {equal} of {len(both)} texts equal, {steps} steps, at most {largest:.4f}")
        if largest > ROUNDING:
            yield f"{name}: log-probabilities differ by {largest:.4f}, the limit is {ROUNDING}"
    if not worst * MARGIN <= control:  # nor of numbers that are none
        yield f"another context moves them by {control:.4f} only: weights that hide a difference"


def label(contexts: list[int]) -> str:
    """How many requests of each context, the fewest last: "15 x 2,048, 1 x 100,000"."""
    counted = Counter(contexts).most_common()
    return ", ".join(f"{count} x {context:,}" for context, count in counted)


def table(stock: dict[str, Any], plugin: dict[str, Any]) -> Iterator[str]:
    """Milliseconds of a step, stock beside plugin: median (mean, slowest tenth)."""
    yield f"| drafts {stock['drafts']} | stock, ms | plugin, ms | graphs, eager launches a step |"
    yield "|---|---|---|---|"
    found = {label(row["contexts"]): row for row in plugin.get("times", ())}
    for row in stock.get("times", ()):
        both = [each for each in (row, found.get(label(row["contexts"]))) if each]
        spans = " | ".join(
            f"{each['milliseconds']:.2f} ({each['mean']:.2f}, {each['tenth_slowest']:.2f})"
            for each in both
        )
        ways = "; ".join(f"{each['graphs']:.2f}, {each['eager']:.2f}" for each in both)
        yield f"| {label(row['contexts'])} | {spans} | {ways} |"
        for each in both:
            for name, count, spent in each.get("kernels", ())[:6]:
                yield f"  {spent:9.1f} us in {count:.1f}: {name[:100]}"
    yield f"start: {stock['start_seconds']:.0f} s, {plugin['start_seconds']:.0f} s"
    yield f"kernels at start: {stock['compiled_at_start']}, {plugin['compiled_at_start']}"
    yield f"counters: {stock.get('counters')}, {plugin.get('counters')}"


def main() -> int:
    """Print both; the exit status."""
    stock, plugin = (json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:3])
    print("\n".join(table(stock, plugin)))
    found = list(problems(stock, plugin))
    print("\n".join(found) if found else "they agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
