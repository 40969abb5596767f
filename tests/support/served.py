"""A model that serves, and changes of it, for stories over several passes."""

from typing import Any

from tests.support.builders import Cluster, tiny_spec

from kindling_operator.model.plan import Decision

OTHER = tiny_spec(serving={"contextLength": 1024})
BROKEN = tiny_spec(runtime={"image": "registry.test/broken"})
REFUSED = tiny_spec(
    serving={
        "contextLength": 1024,
        "disaggregation": {"prefillReplicas": 1, "decodeReplicas": 1},
    }
)


def current(decision: Decision) -> str:
    assert decision.current is not None, decision.verdicts
    return decision.current.hash


def served(spec: Any = None, **cluster: Any) -> tuple[Cluster, str]:
    """A cluster in which the spec serves and the operator has noticed."""
    found = Cluster(**cluster).apply(spec or tiny_spec())
    name = current(found.step())
    found.serve(name).step()
    return found, name
