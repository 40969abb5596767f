"""vLLM's functions as they are in this process: looked at, and exchanged."""

import hashlib
import importlib
import inspect
import sys
from typing import Any

from kindling_runtime.plugins.plugin import Original


def digest(original: Original) -> str | None:
    """That of the function that is here under the original's name; None where none is."""
    try:
        found: Any = importlib.import_module(original.module)
        for part in original.name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return hashlib.sha256(inspect.getsource(found).encode()).hexdigest()


def replace(original: Original, new: object) -> None:
    """Put `new` in the place of a module's function, also where a module has imported it by name.

    A module that is imported later finds `new` by itself.
    """
    old = getattr(importlib.import_module(original.module), original.name)
    package = original.module.partition(".")[0] + "."
    for name, module in list(sys.modules.items()):
        if name.startswith(package) and vars(module).get(original.name) is old:
            setattr(module, original.name, new)
