"""The launch plan as bytes, canonical and checked."""

from typing import TypeVar

import msgspec

from kindling_runtime.contract.plan import CONTRACT_VERSION, LaunchPlan

_Shape = TypeVar("_Shape", bound=msgspec.Struct)


class ContractError(ValueError):
    """A launch plan that cannot be obeyed; the text is one sentence for people."""


def encode(plan: LaunchPlan) -> bytes:
    """The canonical JSON of `plan`.

    Raises ContractError for a plan that `decode` would refuse: a struct checks nothing when it is
    built in code, and a bad plan must fail at its author, not in a pod.
    """
    data = msgspec.json.encode(plan, order="sorted")
    decode(data)
    return data


def decode(data: bytes) -> LaunchPlan:
    """The plan in `data`; raises ContractError when it is not one of this version."""
    # The version is read first and alone: of another version nothing else may be assumed.
    found = _parse(data, _Versioned).version
    if found != CONTRACT_VERSION:
        raise ContractError(
            f"the launch plan has contract version {found}, this runtime speaks version "
            f"{CONTRACT_VERSION}; use the runtime image of the operator's own release"
        )
    return _parse(data, LaunchPlan)


class _Versioned(msgspec.Struct):
    version: int


def _parse(data: bytes, shape: type[_Shape]) -> _Shape:
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.ValidationError as error:
        what, where = _located(str(error))
        raise ContractError(
            f"the launch plan is wrong at {where}: {what}; use the runtime image of the "
            f"operator's own release (contract version {CONTRACT_VERSION})"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ContractError(
            f"the launch plan is not JSON: {_one_line(str(error))}; have the operator render it"
        ) from None


def _located(problem: str) -> tuple[str, str]:
    """Split msgspec's "Expected `int`, got `str` - at `$.drain`" into what and where."""
    what, _, where = problem.partition(" - at ")
    path = where.replace("`", "").replace("$.", "").replace("$", "") or "its top level"
    return _one_line(what[:1].lower() + what[1:]), path


def _one_line(text: str) -> str:
    return " ".join(text.split())
