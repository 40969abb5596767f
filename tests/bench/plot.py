"""A line plot with logarithmic axes as SVG."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 640
HEIGHT: Final = 400
MARGIN: Final = 56
COLOURS: Final = ("#1b6ca8", "#c2571a", "#3f7d20", "#7a3e9d")


@dataclass(frozen=True, slots=True)
class Line:
    """Points by x; one without a title follows the colour of the line before it."""

    title: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def plot(lines: Sequence[Line], *, x: str, y: str) -> str:
    """The picture; `x` and `y` are what the axes are labelled with."""
    across = [point[0] for line in lines for point in line.points]
    up = [point[1] for line in lines for point in line.points]
    body = [*_axes(across, up, x=x, y=y), *_lines(lines, across, up)]
    inner = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="12">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n{inner}\n</svg>\n'
    )


def _axes(across: Sequence[float], up: Sequence[float], *, x: str, y: str) -> Iterator[str]:
    bottom, right = HEIGHT - MARGIN, WIDTH - MARGIN
    yield f'<path d="M{MARGIN},{MARGIN} V{bottom} H{right}" fill="none" stroke="#555"/>'
    for value in sorted(set(across)):
        place = _across(value, across)
        yield f'<text x="{place:.0f}" y="{bottom + 16}" text-anchor="middle">{value:g}</text>'
    for power in range(math.ceil(math.log10(min(up))), math.floor(math.log10(max(up))) + 1):
        place = _up(10.0**power, up)
        yield f'<text x="{MARGIN - 6}" y="{place + 4:.0f}" text-anchor="end">{10.0**power:g}</text>'
        yield f'<path d="M{MARGIN},{place:.1f} H{right}" stroke="#ddd"/>'
    yield f'<text x="{WIDTH // 2}" y="{HEIGHT - 14}" text-anchor="middle">{x}</text>'
    yield f'<text x="{MARGIN}" y="{MARGIN - 34}">{y}</text>'


def _lines(lines: Sequence[Line], across: Sequence[float], up: Sequence[float]) -> Iterator[str]:
    titled = -1
    for line in lines:
        titled += bool(line.title)
        colour = COLOURS[titled % len(COLOURS)]
        path = " L".join(f"{_across(a, across):.1f},{_up(b, up):.1f}" for a, b in line.points)
        dashes = ' stroke-dasharray="4 4"' if line.dashed else ' stroke-width="2"'
        yield f'<path d="M{path}" fill="none" stroke="{colour}"{dashes}/>'
        if line.title:
            place = MARGIN - 14 + 16 * titled
            yield f'<text x="{WIDTH // 2}" y="{place}" fill="{colour}">{line.title}</text>'


def _across(value: float, values: Sequence[float]) -> float:
    return MARGIN + _share(value, values) * (WIDTH - 2 * MARGIN)


def _up(value: float, values: Sequence[float]) -> float:
    return HEIGHT - MARGIN - _share(value, values) * (HEIGHT - 2 * MARGIN)


def _share(value: float, values: Sequence[float]) -> float:
    low, high = math.log(min(values)), math.log(max(values))
    return (math.log(value) - low) / (high - low)
