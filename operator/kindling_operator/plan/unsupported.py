"""Fields whose behaviour does not exist yet: each is refused by name, none is ignored.

A field leaves this table in the change that gives it its behaviour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kindling_operator.model.api import InferenceModelSpec
from kindling_operator.model.api_cache import Cache
from kindling_operator.model.api_serving import Gateway


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A field with the value that is refused and the way to do without it.

    `given` returns the value as it is shown to the user, "" if it needs no showing, and None if
    the spec does not ask for it. `known` is what the field's description says of it, which
    `kubectl explain` prints.
    """

    field: str
    given: Callable[[InferenceModelSpec], str | None]
    instead: str
    known: str = "Not supported by this version."

    def problem(self, spec: InferenceModelSpec) -> str | None:
        """The refusal in one sentence, or None."""
        value = self.given(spec)
        if value is None:
            return None
        shown = f" {value}" if value else ""
        return f"{self.field}{shown} is not supported by this version: {self.instead}."


def _if(asked: object) -> str | None:
    return "" if asked else None


def _cache(spec: InferenceModelSpec) -> Cache:
    return spec.cache or Cache()


UNSUPPORTED: tuple[Unsupported, ...] = (
    Unsupported(
        "spec.serving.disaggregation",
        lambda s: _if(s.serving.disaggregation),
        "remove it, each replica then computes prompts and answers",
    ),
    Unsupported(
        "spec.endpoint.gateway",
        lambda s: "InferencePool" if s.endpoint.gateway is Gateway.INFERENCE_POOL else None,
        "use Router",
        known="InferencePool is not supported by this version.",
    ),
    Unsupported(
        "spec.endpoint.apiKeysSecretRef",
        lambda s: _if(s.endpoint.api_keys_secret_ref),
        "remove it and have keys checked in front of the Service",
    ),
    Unsupported(
        "spec.scaling",
        lambda s: _if(s.scaling),
        "remove it and set spec.replicas, by hand or with a HorizontalPodAutoscaler",
    ),
    Unsupported(
        "spec.cache.objectStore",
        lambda s: _if(_cache(s).object_store),
        "remove it, the KV cache then lives as long as its pod",
    ),
)
