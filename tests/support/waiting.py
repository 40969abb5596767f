"""Waiting that a person can follow: every wait has a deadline and says what it waits for."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

Say = Callable[[str], None]

TELL_SECONDS: Final = 10
"""How long a wait stays silent; and between two of its lines."""

_Found = TypeVar("_Found")


class NotInTimeError(AssertionError):
    """Something did not happen in time; the text says what, and how things stood at the end."""


def until(
    what: str,
    look: Callable[[], _Found | None],
    *,
    seconds: float,
    say: Say = print,
    show: Callable[[], str] = str,
    brief: Callable[[], str] | None = None,
    every: float = 0.5,
    forgive: tuple[type[Exception], ...] = (),
) -> _Found:
    """Call `look` until it finds something (neither None nor False), and return that.

    `show` tells how things stand in the error, and in progress lines too unless `brief` is given.
    An exception of `forgive` counts as "not yet": for waits during which the API server is away on
    purpose.
    Raises NotInTimeError after `seconds`.
    """
    started = told = time.monotonic()
    problem = ""
    while True:
        try:
            found = look()
            problem = ""
        except forgive as error:
            found, problem = None, f"{type(error).__name__}: {error}"
        if found is not None and found is not False:
            return found
        now = time.monotonic()
        if now - started >= seconds:
            raise NotInTimeError(f"{what}: not within {seconds:g} s\n{problem or show()}")
        if now - told >= TELL_SECONDS:
            told = now
            state = " ".join((problem or (brief or show)()).split())
            say(f"  {now - started:4.0f} s of at most {seconds:g} s for {what}; {state}"[:400])
        time.sleep(every)
