"""Checks of ``spec.serving.extraArgs``: what a user may add to the engine's command.

Named checks as in plan/checks.py, which has their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from kindling_operator.model.api_serving import Frontend
from kindling_operator.model.conditions import Reason
from kindling_operator.model.plan import Verdict
from kindling_operator.model.runtime import EngineFacts, OptionValue, RuntimeFacts
from kindling_operator.plan.capabilities import engine_of, runtime_for
from kindling_operator.plan.extra_args import (
    Spellings,
    first_of,
    name_of,
    options_in,
    read_as,
)
from kindling_operator.plan.forbidden import FORBIDDEN, FORBIDDEN_KEYS
from kindling_operator.plan.listing import few, joined
from kindling_operator.plan.refusal import refusal
from kindling_operator.plan.subject import Subject

_SIMILAR: Final = 0.75
"""How alike two names of options are at least (difflib's ratio)."""
NOT_IN_RUST: Final = (
    "--override-generation-config",
    "--otlp-traces-endpoint",
    "--max-num-queued-reqs",
    "--max-num-queued-tokens",
    "--enable-server-load-tracking",
)
"""Options that end the Rust frontend (vLLM 0.33.0, `vllm-rs serve --help`), beside those that
nobody may give."""


def argument_is_forbidden(subject: Subject) -> Verdict | None:
    """Extra arguments may not set what the plan owns, nor what is known to break.

    Source: plan/forbidden.py, and `forbiddenArguments` of the model.
    """
    broken = {f.argument: f"{f.reason}, remove it" for f in subject.entry.forbidden_arguments}
    return _first_forbidden(subject, {**FORBIDDEN, **broken}) or _first_forbidden_key(subject)


def argument_is_planned(subject: Subject, argv: Sequence[str]) -> Verdict | None:
    """Extra arguments may not repeat an option of the planned command: the last one would win."""
    given = subject.spec.serving.extra_args
    if not given:
        return None
    own = argv[: len(argv) - len(given)]
    planned = options_in(own, _known(subject))
    return _first_forbidden(subject, dict.fromkeys(planned, "the plan sets it, remove it"))


def argument_is_no_option(subject: Subject) -> Verdict | None:
    """vLLM ends at an argument that its parser cannot read, minutes after the pod was made.

    Source: `engine.options` of the runtime, which is what that parser has. Of an image that nobody
    described only its owner knows.
    """
    for argument in subject.spec.serving.extra_args:
        for device in subject.architecture.devices:
            engine = engine_of(subject, device)
            if engine is None:
                continue
            problem = _misread(argument, engine, runtime_for(subject, device))
            if problem:
                return refusal(Reason.FORBIDDEN_ARGUMENT, f"spec.serving.extraArgs: {problem}.")
    return None


def rust_frontend_ends_at_an_argument(subject: Subject) -> Verdict | None:
    """Options that the Rust frontend does not implement end its start (trap T27).

    Source: vLLM 0.33.0, `vllm-rs serve --help` and runs of it.
    """
    if subject.spec.serving.frontend is not Frontend.RUST:
        return None
    known, unknown = _known(subject), dict.fromkeys(NOT_IN_RUST, "")
    for argument in subject.spec.serving.extra_args:
        if first_of(argument, unknown, known) is not None:
            return refusal(
                Reason.FORBIDDEN_ARGUMENT,
                f"spec.serving.extraArgs: {name_of(argument)} ends the Rust frontend, which does"
                " not implement it: remove it, or set spec.serving.frontend Python.",
            )
    return None


def _first_forbidden(subject: Subject, forbidden: Mapping[str, str]) -> Verdict | None:
    known = _known(subject)
    for argument in subject.spec.serving.extra_args:
        option = first_of(argument, forbidden, known)
        if option is not None:
            given = name_of(argument)
            shown = given if given == option else f"{given} (read as {option})"
            return refusal(
                Reason.FORBIDDEN_ARGUMENT,
                f"spec.serving.extraArgs: {shown} is refused: {forbidden[option]}.",
            )
    return None


def _first_forbidden_key(subject: Subject) -> Verdict | None:
    """Of what an option takes as JSON or as ``--option.key``."""
    for argument in subject.spec.serving.extra_args:
        for key, way_out in FORBIDDEN_KEYS.items():
            if key in argument:
                return refusal(
                    Reason.FORBIDDEN_ARGUMENT,
                    f"spec.serving.extraArgs: {key} in {name_of(argument)} is refused: {way_out}.",
                )
    return None


def _misread(argument: str, engine: EngineFacts, facts: RuntimeFacts) -> str:
    """Why a vLLM cannot read an argument, with the way out; "" if it can."""
    known, name = engine.spellings, name_of(argument)
    meant = read_as(argument, known)
    if not meant:
        return (
            f"{name} is no option of vLLM {facts.vllm}, which the runtime image {facts.name} has:"
            f" {_instead_of(name, known)}"
        )
    if len(meant) > 1:
        return f"{name} may mean {few(meant)}: write one of them in full"
    value = engine.options[meant[0]].value
    if value is OptionValue.NONE and "=" in argument:
        off = next((each for each in engine.options[meant[0]].also if each.startswith("--")), "")
        other = f" or {off}" if off else ""
        return f"{name} takes no value: write {meant[0]}{other}"
    if value is OptionValue.REQUIRED and "=" not in argument:
        return f"{name} takes a value: write {meant[0]}=VALUE"
    return ""


def _instead_of(name: str, known: Spellings) -> str:
    """What to do about a name that is no option: the nearest ones that may be given, or what to do
    instead of the nearest."""
    nearest = get_close_matches(name, known, n=3, cutoff=_SIMILAR)
    if nearest and known[nearest[0]] in FORBIDDEN:
        return f"if {nearest[0]} is meant, {FORBIDDEN[known[nearest[0]]]}"
    free = [each for each in nearest if known[each] not in FORBIDDEN]
    return f"use {joined(free, 'or')} if that is meant, or remove it" if free else "remove it"


def _known(subject: Subject) -> Spellings:
    """Spellings of options in the vLLM of the model's images; of this release's where nobody has
    told."""
    found: Spellings = {}
    for device in subject.architecture.devices:
        engine = engine_of(subject, device) or subject.environment.own_runtime(device).engine
        if engine is not None:
            found = {**found, **engine.spellings} if found else engine.spellings
    return found
