"""Files that hold what the code is known to say: read by people when they change."""

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "KINDLING_GOLDEN"
"""Set to "write" (make golden), the files are written anew instead of compared."""


def check_golden(path: Path, text: str) -> None:
    """The file is exactly this text."""
    if os.environ.get(VARIABLE) == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return
    assert path.exists(), f"{path} is missing: run `make golden`, read it, commit it"
    assert path.read_text("utf-8") == text, f"{path} differs: run `make golden`, read the diff"
