"""A clock that a test sets."""


class Clock:
    """Seconds; `now` is what it tells."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
