"""What is watched beside kopf, by hand: stores as if the API server had been listed."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from kindling_operator.kube.reflector import Store
from kindling_operator.observe.beside import Beside
from kindling_operator.observe.foreign import ForeignPods
from kindling_operator.observe.nodes import Nodes

S = TypeVar("S", bound=Store)


@dataclass
class Listed(Generic[S]):
    """A source whose store a test fills; without lists it has not been listed yet."""

    store: S
    lists: int = 1

    @property
    def synced(self) -> bool:
        return self.lists > 0

    def put(self, uid: str, name: str, namespace: str = "", **body: Any) -> bool:
        """An object appears or changes; whether that changes anything."""
        metadata = {"uid": uid, "name": name, "namespace": namespace}
        return self.store.put(
            msgspec.json.encode({**body, "metadata": {**metadata, **body.get("metadata", {})}})
        )


class Sources:
    """Nodes and pods of others, and a clock."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.nodes = Listed(Nodes())
        self.pods = Listed(ForeignPods())
        self.beside = Beside(nodes=self.nodes, pods=[self.pods])
