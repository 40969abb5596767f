"""`python -m tests.support.lint`: print every broken house rule and exit 1 if there is one."""

from __future__ import annotations

import sys

from tests.support.lint.files import project_files
from tests.support.lint.rules import broken_rules


def main() -> int:
    paths = project_files()
    found = list(broken_rules(paths))
    print("\n".join(found) if found else f"house rules: {len(paths)} files are clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
