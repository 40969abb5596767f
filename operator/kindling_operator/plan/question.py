"""What a search looks at of a model: models that agree in it share the answer.

The search is shown no more than that, so that an answer depends on nothing that its question does
not have.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TypeVar

import msgspec
from msgspec import structs

from kindling_operator.model.api import InferenceModelSpec
from kindling_operator.model.api_cache import Cache
from kindling_operator.model.api_model import Weights
from kindling_operator.model.api_placement import Gpu, Placement, Runtime
from kindling_operator.model.api_serving import Serving
from kindling_operator.model.parse import ParsedModel
from kindling_operator.plan.mounts import takes_room
from kindling_operator.plan.subject import Subject

_Part = TypeVar("_Part")

_ELSEWHERE = Weights(uri="file:///")
"""Weights that take nothing of the pod's own storage, wherever they are."""


def searched(subject: Subject) -> Subject:
    """The model without what no search looks at: where its weights are, but for whether each pod
    has to have room for them, what users call it, its own arguments, who it is towards registries
    and stores, and how it comes to its replicas."""
    spec = subject.spec
    placement, runtime = spec.placement or Placement(), spec.runtime or Runtime()
    serving = structs.replace(spec.serving, served_name=None, extra_args=(), media_domains=())
    return _asking(
        subject,
        serving,
        structs.replace(placement, priority_class_name=None),
        structs.replace(runtime, image_pull_secrets=(), service_account_name=None),
        structs.replace(spec.cache or Cache(), object_store=None),
        weights=None if takes_room(subject.weights) else _ELSEWHERE,
    )


def undemanding(subject: Subject) -> Subject:
    """The model as if it asked for nothing that comes in amounts, and could take any node.

    No rule of plan/rules looks at these: they are counted and compared afterwards.
    """
    spec, usual = subject.spec, Serving()
    placement, runtime = spec.placement or Placement(), spec.runtime or Runtime()
    gpu = structs.replace(placement.gpu or Gpu(), min_memory=None)
    return _asking(
        subject,
        structs.replace(spec.serving, context_length=None, concurrency=usual.concurrency),
        structs.replace(placement, gpu=_if_said(gpu, Gpu()), node_selector={}, tolerations=()),
        structs.replace(runtime, resources=None),
        structs.replace(spec.cache or Cache(), encoder_memory=None),
    )


def question_of(subject: Subject) -> Hashable:
    """All of a model that counts, beside what the installation knows."""
    return subject.entry.name, subject.architecture, msgspec.json.encode(subject.spec)


def _asking(
    subject: Subject,
    serving: Serving,
    placement: Placement,
    runtime: Runtime,
    cache: Cache,
    *,
    weights: Weights | None = None,
) -> Subject:
    """The model with nothing but these in its spec; an empty one says as much as none."""
    spec = InferenceModelSpec(
        model=structs.replace(subject.spec.model, weights=weights),
        serving=serving,
        placement=_if_said(placement, Placement()),
        runtime=_if_said(runtime, Runtime()),
        cache=_if_said(cache, Cache()),
    )
    return replace(subject, model=ParsedModel(subject.model.metadata, spec))


def _if_said(part: _Part, empty: _Part) -> _Part | None:
    return None if part == empty else part
