"""`python -m kindling_operator`: the operator of one cluster."""

import sys

from kindling_operator.main import main

if __name__ == "__main__":
    sys.exit(main())
