"""How a command ends early."""


class Failure(Exception):  # noqa: N818
    """One sentence for the terminal, and the exit code."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


REFUSED = 1
USAGE = 2


def usage(message: str) -> Failure:
    """What was typed cannot be done: a file that is none, a name that is none."""
    return Failure(message, code=USAGE)
