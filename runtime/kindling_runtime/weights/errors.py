"""Why weights cannot be had, each with the one sentence that a person reads."""

from kindling_runtime.contract import Reason


class FetchError(Exception):
    """A fetch that has failed; the text is one sentence: what, the number, the fix."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class TransientError(Exception):
    """The store did not answer well; asking again may help, after `wait` seconds if it said so. The
    text says what it did."""

    def __init__(self, text: str, *, wait: float = 0.0) -> None:
        super().__init__(text if not wait else f"{text}, to be asked again after {wait:.0f} s")
        self.wait = wait


class ChangedError(Exception):
    """A file in the store is not the one that was listed."""
