"""`python -m tests.support.lint.shell`: shellcheck on every shell script, whatever its name."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.support.lint.files import project_files

SHEBANG: Final = re.compile(
    rb"#!\s*(?:/\S*/)?(?:env\s+(?:-S\s*)?)?(?:\S*/)?(?:sh|bash|dash|ksh)(?:\s|$)"
)
"""A first line that starts a shell: by any path, through env or not, with options or without."""

SHELLCHECK: Final = Path(sys.executable).with_name("shellcheck")


def shell_scripts(paths: Iterable[Path]) -> list[Path]:
    """The scripts among some files: by their first line, or *.sh for what is sourced."""
    return sorted(path for path in paths if path.suffix == ".sh" or _starts_a_shell(path))


def _starts_a_shell(path: Path) -> bool:
    with path.open("rb") as file:
        return SHEBANG.match(file.readline(200)) is not None


def main() -> int:
    """shellcheck's exit status; says how many scripts it was given."""
    scripts = shell_scripts(project_files())
    print(f"shellcheck: {len(scripts)} scripts", flush=True)
    return subprocess.run([SHELLCHECK, "-x", *scripts], check=False, timeout=300).returncode


if __name__ == "__main__":
    sys.exit(main())
