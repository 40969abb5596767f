"""What the operator watches: each kind with the selector that is sent and the view that is kept."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kindling_operator.kube.kinds import CLAIM, ENDPOINT_SLICE, MODEL, POD, PRIORITY_CLASS
from kindling_operator.model import names
from kindling_operator.model.names import CHILD_KINDS, OPTIONAL_KINDS, Key, Kind
from kindling_operator.observe.fields import Body, text
from kindling_operator.observe.parse import (
    child,
    claim,
    endpoints,
    model,
    model_key,
    pod,
    priority,
)

OURS: Final = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"
"""Label selector for what render makes; an EndpointSlice mirrors the labels of its Service."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One observed object: its identity and the view that decisions read."""

    uid: str
    resource_version: str
    namespace: str
    name: str
    key: Key | None
    view: Any


@dataclass(frozen=True, slots=True)
class Watched:
    """One watched kind.

    `view` returns None for objects that no decision reads. `complete` tells whether every object
    that the selector matches has a view, so that one missing from the index has been missed.
    """

    kind: Kind
    view: Callable[[Body], Any]
    key: Callable[[Body], Key | None]
    selector: str = ""
    complete: bool = True

    @property
    def optional(self) -> bool:
        """Whether a cluster may lack the kind."""
        return self.kind in OPTIONAL_KINDS

    @property
    def id(self) -> str:
        """Name of the index."""
        return self.kind.plural

    def entry(self, body: Body) -> Entry | None:
        """What is kept of an object; None for one that no decision reads."""
        view = self.view(body)
        if view is None:
            return None
        return Entry(
            uid=text(body, "metadata", "uid"),
            resource_version=text(body, "metadata", "resourceVersion"),
            namespace=text(body, "metadata", "namespace"),
            name=text(body, "metadata", "name"),
            key=self.key(body),
            view=view,
        )

    def wakes(self, body: Body) -> frozenset[Key]:
        """The models that an event of this object concerns: by label and by owner.

        A child whose label was changed by hand still wakes the model that owns it.
        """
        found = {self.key(body)}
        if self.kind in CHILD_KINDS:
            found.add(child(body, self.kind).owner)
        return frozenset(key for key in found if key is not None)


def own_key(body: Body) -> Key:
    """Namespace and name of the object itself."""
    return Key(text(body, "metadata", "namespace"), text(body, "metadata", "name"))


def no_key(_body: Body) -> None:
    """For objects that belong to no model."""


MODELS: Final = Watched(MODEL, model, own_key)
PODS: Final = Watched(POD, pod, model_key, selector=names.LABEL_MODEL, complete=False)
CLAIMS: Final = Watched(CLAIM, claim, no_key)
ENDPOINTS: Final = Watched(ENDPOINT_SLICE, endpoints, model_key, selector=OURS, complete=False)
CHILDREN: Final = tuple(
    Watched(kind, partial(child, kind=kind), model_key, selector=OURS) for kind in CHILD_KINDS
)

PRIORITIES: Final = Watched(PRIORITY_CLASS, priority, no_key)

WATCHED: Final = (MODELS, PODS, CLAIMS, ENDPOINTS, PRIORITIES, *CHILDREN)
