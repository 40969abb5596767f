"""python -m tests.support.tinymodel FOLDER [--arch qwen3] [--max-len 4096] [--layers sssssf]"""

import argparse
import sys
from pathlib import Path

from tests.support.tinymodel.architectures import Architecture
from tests.support.tinymodel.make_model import make_model


def main() -> int:
    """Make the model; 64 if the arguments do not fit together."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.tinymodel", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", type=Architecture, default=Architecture.QWEN3)
    parser.add_argument("--max-len", type=int, default=4096, help="tokens")
    parser.add_argument("--layers", help="one letter a layer: s sliding window, f full attention")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    try:
        count = make_model(
            given.folder, given.arch, max_len=given.max_len, layers=given.layers, seed=given.seed
        )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 64
    print(f"{given.folder}: {given.arch}, {count / 1e6:.2f} M parameters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
