"""The files of the project: what git tracks, and what it would track next."""

from __future__ import annotations

import subprocess
from pathlib import Path


def project_files() -> list[Path]:
    """Relative to the present folder, the top of a repository; ignored ones are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return [path for path in map(Path, listed.stdout.split("\0")) if path.is_file()]
