"""Pods, also by the model that they serve: asked for once per model, in a cluster of many."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from kindling_operator.model.names import Key
from kindling_operator.model.objects import PodView


class Pods(tuple[PodView, ...]):
    """A tuple of pods that finds those of a model without looking at all of them."""

    @cached_property
    def by_model(self) -> Mapping[Key, tuple[PodView, ...]]:
        """The serving pods of each model that has any, in order."""
        found: dict[Key, list[PodView]] = {}
        for pod in self:
            if pod.model is not None:
                found.setdefault(pod.model, []).append(pod)
        return {key: tuple(pods) for key, pods in found.items()}
