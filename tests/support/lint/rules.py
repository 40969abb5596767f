"""The rules: sizes of files and functions, names that must not exist, words that must not land."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.lint.purity import impurities

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40
TOP_LEVEL = {
    "operator",
    "images",
    "charts",
    "crds",
    "runtime",
    "tests",
    "docs",
    "Makefile",
    "pyproject.toml",
    "uv.lock",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
}
CODE = {".py", ".sh", ".go"}
# Marks of unfinished work; spelled apart here so that this file does not trip over itself.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX")) + r")\b")
MACHINE_PATH = re.compile(r"(^|[^A-Za-z0-9_.-])/(work|farm)/")


def broken_rules(paths: Iterable[Path]) -> Iterator[str]:
    """One line per broken rule: path, what is wrong, the number, the limit."""
    for path in sorted(paths):
        yield from _name(path)
        if _is_code(path):
            text = path.read_text(encoding="utf-8")
            yield from _text(path, text)
            if path.suffix == ".py":
                yield from _functions(path, text)
                yield from impurities(path, text)


def _is_code(path: Path) -> bool:
    if path.suffix in CODE:
        return True
    if path.suffix or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def _name(path: Path) -> Iterator[str]:
    top = path.parts[0]
    if top not in TOP_LEVEL and not top.startswith("."):
        homes = ", ".join(sorted(TOP_LEVEL))
        yield f"{path}: {top} does not belong at the top level; move it under one of {homes}"
    if path.as_posix() == "operator/__init__.py":
        yield f"{path}: shadows the standard library's module 'operator'; delete it"
    if path.name == "utils.py":
        yield f"{path}: name the domain instead of 'utils'"


def _text(path: Path, text: str) -> Iterator[str]:
    lines = text.splitlines()
    if len(lines) > MAX_FILE_LINES:
        yield f"{path}: {len(lines)} lines, the limit is {MAX_FILE_LINES}; split it by topic"
    for number, line in enumerate(lines, start=1):
        if UNFINISHED.search(line):
            yield f"{path}:{number}: unfinished work; finish it or open an issue"
        if MACHINE_PATH.search(line):
            yield f"{path}:{number}: a path of one machine"


def _functions(path: Path, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield (
                    f"{path}:{node.lineno}: {node.name} has {length} lines, the limit is "
                    f"{MAX_FUNCTION_LINES}; extract a named step"
                )
