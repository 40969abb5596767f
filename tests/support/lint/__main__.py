"""`python -m tests.support.lint`: print every broken house rule and exit 1 if there is one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.lint.rules import broken_rules


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    paths = [Path(line) for line in listed.stdout.splitlines() if Path(line).is_file()]
    found = list(broken_rules(paths))
    print("\n".join(found) if found else f"house rules: {len(paths)} files are clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
