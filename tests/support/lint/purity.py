"""The rule of the pure packages: the same arguments give the same result, on any machine, any day.

import-linter forbids modules, also through others, but cannot see a clock read from a type that is
needed (datetime.now), a built-in (open), or another module's own import (contextlib.os). So here
the modules are a list of what may be imported, and the calls are looked at.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PURE: Final = (
    "operator/kindling_operator/model/",
    "operator/kindling_operator/plan/",
    "operator/kindling_operator/render/",
    "runtime/kindling_runtime/contract/",
    "runtime/kindling_runtime/kv/policy/",
)
OURS: Final = ("kindling_operator", "kindling_runtime")
ALLOWED: Final = {
    "__future__", "bisect", "collections", "contextlib", "dataclasses", "datetime", "difflib",
    "enum", "fractions", "functools", "hashlib", "itertools", "math", "msgspec", "re", "types",
    "typing",
}  # fmt: skip
"""What calculates, and nothing that knows a clock, chance, a process, a file or a network."""

PARTS: Final = {
    ("collections", "abc"), ("datetime", "time"), ("msgspec", "inspect"), ("msgspec", "json"),
}  # fmt: skip
"""Names of the allowed modules' own that are also names of other modules."""

CLOCKS: Final = {"now", "utcnow", "today"}
"""Of datetime and date. A field of that name may be read, never called."""

ZONED: Final = {"fromtimestamp": 2, "astimezone": 1}
"""Methods that take the machine's own time zone unless they have so many arguments."""

BUILT_IN: Final = {
    "open", "input", "print", "eval", "exec", "compile", "breakpoint", "__import__", "globals",
    "id", "hash",
}  # fmt: skip
"""What reaches outside; id() and hash() differ between two processes."""


def impurities(path: Path, text: str) -> Iterator[str]:
    """One line for each thing in a file of a pure package that makes it depend on more than its
    arguments; none for other files."""
    if not path.as_posix().startswith(PURE):
        return
    for node in ast.walk(ast.parse(text)):
        for what in (*_imported(node), *_reached(node), *_called(node)):
            line = getattr(node, "lineno", 1)
            yield f"{path}:{line}: {what} in a pure package; take what it gives as an argument"


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for each in node.names:
            if _is_foreign(each.name):
                yield f"import {each.name}"
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        if _is_foreign(node.module):
            yield f"import {node.module}"
        for each in node.names:
            if _borrows(node.module, each.name):
                yield f"import {node.module}.{each.name}"
            if node.module == "datetime" and each.asname:
                yield f"another name of {each.name}, which hides reads of the clock,"


def _reached(node: ast.AST) -> Iterator[str]:
    """Another module through one that is allowed, a clock through a type, a built-in by name."""
    if isinstance(node, ast.Attribute):
        owner = ast.unparse(node.value)
        if _borrows(owner, node.attr):
            yield f"{owner}.{node.attr}"
        if node.attr in CLOCKS and owner.rpartition(".")[2] in {"datetime", "date"}:
            yield f"the clock, {owner}.{node.attr},"
    if isinstance(node, ast.Name) and node.id in BUILT_IN and isinstance(node.ctx, ast.Load):
        yield f"{node.id}()"


def _called(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    name, owner = node.func.attr, ast.unparse(node.func.value)
    if name in CLOCKS and owner.rpartition(".")[2] not in {"datetime", "date"}:
        yield f"the clock, {owner}.{name}(),"
    if len(node.args) + len(node.keywords) < ZONED.get(name, 0):
        yield f"the machine's time zone, {owner}.{name}(),"


def _is_foreign(module: str) -> bool:
    top = module.partition(".")[0]
    return top not in ALLOWED and top not in OURS


def _borrows(module: str, name: str) -> bool:
    """Whether `module.name` is another module of Python's that an allowed one has imported."""
    last = module.rpartition(".")[2]
    if last not in ALLOWED or (last, name) in PARTS:
        return False
    return name in sys.stdlib_module_names and name not in ALLOWED
