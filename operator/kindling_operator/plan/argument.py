"""An argument of the engine's command, made together with the reason why it is given."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from kindling_operator.model.plan import EnginePlan


class Argument(NamedTuple):
    """One word of the command: `text` as ``--name=value``, `why` in a few words.

    `why` is "" for words that another one explains: the program, the values of a list.
    """

    text: str
    why: str = ""


def name_of(text: str) -> str:
    """The option that a word sets; a word without a value is its own name."""
    return text.partition("=")[0]


def texts(arguments: Iterable[Argument]) -> tuple[str, ...]:
    """The words alone."""
    return tuple(each.text for each in arguments)


def reasons(arguments: Iterable[Argument]) -> dict[str, str]:
    """Why each option is given, by its name."""
    return {name_of(each.text): each.why for each in arguments if each.why}


def explained(plan: EnginePlan) -> dict[str, str]:
    """Why each option of a plan's command is given, in the order of the command."""
    of_ranks = chain.from_iterable(plan.group.rank_arguments if plan.group is not None else ())
    names = dict.fromkeys(map(name_of, (*plan.argv, *of_ranks)))
    return {name: plan.reasons[name] for name in names if name in plan.reasons}
