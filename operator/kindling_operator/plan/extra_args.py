"""``spec.serving.extraArgs`` as vLLM's parser reads them.

It takes ``_`` for ``-``, ``--config.key`` for a part of ``--config``, ``--no-x`` and sometimes
``--disable-x`` for the opposite of ``--x`` or ``--enable-x``, and an abbreviation for the option
that alone begins with it (argparse), so a name is judged after the same treatment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Spellings = Mapping[str, str]
"""The option's own name by each of its spellings (model/runtime.py)."""


def name_of(argument: str) -> str:
    """The name in an argument: ``--a_b.c=1`` has ``--a-b``."""
    return argument.partition("=")[0].partition(".")[0].replace("_", "-")


def read_as(argument: str, known: Spellings) -> tuple[str, ...]:
    """The options that an argument may mean: one if it is written in full or begins one alone,
    several if it begins several, at which vLLM ends, none if vLLM does not know it."""
    name = name_of(argument)
    if name in known:
        return (known[name],)
    begun = (option for spelling, option in known.items() if spelling.startswith(name))
    return tuple(dict.fromkeys(begun))


def options_in(arguments: Iterable[str], known: Spellings) -> set[str]:
    """The options among a command's arguments."""
    return {
        option
        for argument in arguments
        if argument.startswith("--")
        for option in read_as(argument, known) or (name_of(argument),)
    }


def first_of(argument: str, forbidden: Mapping[str, str], known: Spellings) -> str | None:
    """The first forbidden option that an argument may mean, or None.

    What this vLLM does not know is looked up under its own name: another vLLM may know it.
    """
    meant = read_as(argument, known) or (name_of(argument),)
    return next((option for option in meant if option in forbidden), None)
