"""Every text that the code of the operator can say, for tests of what messages have in common."""

import ast
from collections.abc import Iterator

from tests.support.onenode import ROOT


def texts() -> Iterator[str]:
    """The string literals of the operator in its files' order, docstrings of all kinds included.

    What an f-string fills in stands as X.
    """
    for path in sorted((ROOT / "operator").rglob("*.py")):
        yield from _of(ast.parse(path.read_text()))


def _of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
        yield "".join(map(str, parts))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _of(child)
