"""The folder that all of Kindling's tools share: binaries, wheels, images, cluster states."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """It may not exist yet; the shell scripts find it by the same three variables."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("KINDLING_CACHE") or home / "kindling")
