"""The rules that options are judged by, as a book: one named function per rule, in order.

A rule takes a `Candidate` and says nothing or refuses; the first that speaks is heard. Add a rule
as one function in the chapter that it belongs to, and one line here.
"""

from __future__ import annotations

from collections.abc import Callable

from kindling_operator.plan.candidate import Candidate, Refusal

OptionRule = Callable[[Candidate], Refusal | None]
"""Why a candidate cannot be taken, or None."""

OPTION_RULES: tuple[OptionRule, ...] = ()


def judge_option(candidate: Candidate) -> Refusal | None:
    """The first refusal, or None for a candidate that may be sized."""
    found = (rule(candidate) for rule in OPTION_RULES)
    return next((refusal for refusal in found if refusal is not None), None)
