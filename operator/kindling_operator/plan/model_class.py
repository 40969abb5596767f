"""The model class of config.json: whether the image's vLLM generates text with it.

Source: `engine.classes` of the runtime, which is what vLLM's own registry has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from kindling_operator.model.api_model import ModelName
from kindling_operator.model.architecture import Device
from kindling_operator.model.conditions import Reason
from kindling_operator.model.plan import Verdict
from kindling_operator.model.runtime import ModelClasses, RuntimeFacts
from kindling_operator.plan.capabilities import (
    engine_of,
    image_is_unknown,
    model_on,
    runtime_for,
)
from kindling_operator.plan.listing import joined
from kindling_operator.plan.refusal import refusal
from kindling_operator.plan.subject import Subject

_NEAREST: Final = 3
_SIMILAR: Final = 0.7
"""How alike two names are at least (difflib's ratio): Llama3 and Llama, not Bert and Bee."""


def class_generates_no_text(subject: Subject) -> Verdict | None:
    """vLLM ends at a class that it does not have, and no replica of one that pools gets ready.

    Source: vLLM 0.33.0, model_executor/models/registry.py (_raise_for_unsupported); `engine` of
    the runtime. Of an image that nobody described, or whose vLLM this release has no facts of, only
    its owner knows.
    """
    for device in subject.architecture.devices:
        facts, engine = runtime_for(subject, device), engine_of(subject, device)
        if engine is not None and not _has(facts, engine.classes, subject):
            custom = subject.model.spec.model.name is ModelName.CUSTOM
            reason = Reason.INVALID_ARCHITECTURE if custom else Reason.BROKEN_COMBINATION
            return refusal(reason, _problem(subject, facts, engine.classes))
    return None


def unverified_class(subject: Subject, device: Device) -> str:
    """What nobody has verified about a model class on a device; "" if nothing.

    On CPU, which is for tests and laptops, a class that vLLM has counts as one that runs.
    """
    name = subject.architecture.architecture
    facts, engine = runtime_for(subject, device), engine_of(subject, device)
    known = model_on(subject) if device is Device.GPU else facts.on(name)
    if known is not None and any(each.feature is None for each in known.capabilities):
        return ""
    own = subject.environment.own_runtime(device).engine
    if image_is_unknown(subject, device):
        if own is not None and not _generates(own.classes, name):
            return f"vLLM {facts.vllm} of that image generates no text with {name}"
    elif engine is None:
        return f"nobody has told whether vLLM {facts.vllm} of the runtime image has {name}"
    elif name in engine.classes.through_transformers:
        return f"vLLM {facts.vllm} runs {name} in Transformers' code, which nobody has measured"
    if device is Device.CPU:
        return ""
    return f"nobody has measured {name} on GPUs"


def _has(facts: RuntimeFacts, classes: ModelClasses, subject: Subject) -> bool:
    """Whether an image generates with the class: its vLLM does, or its description says so."""
    name = subject.architecture.architecture
    return facts.on(name) is not None or _generates(classes, name)


def _generates(classes: ModelClasses, name: str) -> bool:
    if name in classes.generates or name in classes.through_transformers:
        return True
    return any(other in classes.generates for other in _alike(classes, name))


def _alike(classes: ModelClasses, name: str) -> Iterator[str]:
    """The names that vLLM looks up where it does not have one (registry.py, _normalize_arch)."""
    if _does_instead(classes, name):
        return
    ending = next((each for each in classes.endings if name.endswith(each)), None)
    if ending is not None:
        yield from (name.removesuffix(ending) + other for other in classes.endings)


def _problem(subject: Subject, facts: RuntimeFacts, classes: ModelClasses) -> str:
    name = subject.architecture.architecture
    custom = subject.model.spec.model.name is ModelName.CUSTOM
    what = "spec.model.custom.architecture" if custom else f"{subject.entry.title}'s class"
    image = f"vLLM {facts.vllm} of the runtime image {facts.name}"
    instead = _does_instead(classes, name)
    fault = f"{instead} and generates no text in {image}" if instead else f"is not in {image}"
    nearest = _nearest(classes, name) if custom else []
    use = f"use {joined(nearest, 'or')} if that is meant, or " if nearest else ""
    return (
        f"{what} {name} {fault}: {use}describe an image that generates with it under the chart's"
        " `runtimes` and name it in spec.runtime.image."
    )


def _does_instead(classes: ModelClasses, name: str) -> str:
    """What a class does that vLLM has for something else than text; "" for others."""
    if name in classes.pools:
        return "gives vectors, scores or labels"
    if name in classes.drafts:
        return "drafts for another model"
    return "transcribes speech" if name in classes.transcribes else ""


def _nearest(classes: ModelClasses, name: str) -> list[str]:
    """Classes with a similar name: what stands before "For" is compared, since all share the rest.
    Of each such stem the one with the most similar name."""
    stems: dict[str, list[str]] = defaultdict(list)
    for each in sorted(classes.generates):
        stems[_stem(each)].append(each)
    found = get_close_matches(_stem(name), stems, n=_NEAREST, cutoff=_SIMILAR)
    return [get_close_matches(name, stems[stem], n=1, cutoff=0)[0] for stem in found]


def _stem(name: str) -> str:
    return name.partition("For")[0].removesuffix("Model").casefold()
