"""Widths, colours and bars: what a reader's terminal makes of them."""

import io
import os

import pytest

from kindling_operator.cli_terminal import Terminal, Tone


class Screen(io.StringIO):
    """A stream that is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "colour"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, True),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
    ids=str,
)
def test_colours_are_for_terminals_that_want_them(
    environment: dict[str, str], colour: bool
) -> None:
    assert Terminal.of(Screen(), environment).colour is colour


def test_a_pipe_gets_no_colours_and_always_the_same_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "117")
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")

    found = Terminal.of(stream, {"TERM": "xterm"})

    assert (found.width, found.colour, found.blocks) == (100, False, True)
    assert found.paint("x", Tone.BAD) == "x"


@pytest.mark.parametrize(("columns", "width"), [(20, 80), (95, 95), (400, 120)])
def test_the_width_is_the_terminals_within_limits(
    columns: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert Terminal.of(Screen(), dict(os.environ)).width == width


def test_a_bar_is_exact_to_an_eighth_and_never_hides_what_is_there() -> None:
    terminal = Terminal()
    assert terminal.bar(1, 2, width=9) == "████▌"
    assert terminal.bar(1, 10**9, width=10) == "▏"
    assert terminal.bar(0, 10, width=10) == ""
    assert Terminal(blocks=False).bar(1, 2, width=10) == "#####"


def test_an_ascii_stream_gets_no_blocks() -> None:
    assert not Terminal.of(io.TextIOWrapper(io.BytesIO(), encoding="ascii"), {}).blocks


def test_words_stay_whole_and_the_lines_can_be_pasted() -> None:
    lines = Terminal(width=80).words(
        ["vllm", "serve", '\'{"a": 1, "b": 2}\'', *["--flag=value"] * 6],
        indent="  ",
        after="    ",
        end=" \\",
    )
    assert all(len(line) <= 80 for line in lines)
    assert lines[0] == (
        '  vllm serve \'{"a": 1, "b": 2}\' --flag=value --flag=value --flag=value \\'
    )
    assert lines[1] == "    --flag=value --flag=value --flag=value"


def test_long_cells_of_a_table_are_wrapped_in_their_column() -> None:
    rows = [("A", "WHY"), ("first", "word " * 20), ("an option " * 6, "short")]
    lines = Terminal(width=80, colour=True).table(rows, tone=Tone.FAINT)

    assert lines[0] == f"\x1b[2m  {'A':<32}  WHY\x1b[0m"
    assert lines[1].startswith(f"  {'first':<32}  word word")
    assert lines[2].startswith(f"  {'':<32}  word")
    assert lines[-2:] == [
        "  an option an option an option an  short",
        "  option an option an option",
    ]
    assert all(len(line) <= 80 for line in lines[1:])
