"""Every permission that the operator uses. The chart's roles are tested to equal this table.

Reads come from watches and from the audit's lists. `get` asks for a name that may be taken.
Server-side apply needs `patch`, and `create` where it makes the object. A Service is never
deleted but by its owner, so that no decision can take an endpoint away.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kindling_operator.kube.kinds import BESIDE_KINDS, EVENT, LEASE, MODEL
from kindling_operator.model.names import CHILD_KINDS, PRUNED_KINDS, Kind
from kindling_operator.observe.watched import WATCHED

_READ: Final = ("list", "watch")
_WRITE: Final = ("create", "get", "patch")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a Role: verbs on one resource, restricted to `names` if there are any."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


def cluster_rules(lease_name: str) -> tuple[Rule, ...]:
    """For the ClusterRole. The Lease is watched by name, as its field selector asks for it."""
    kinds = (*(watched.kind for watched in WATCHED), *BESIDE_KINDS)
    reads = [Rule(kind.group, kind.plural, _verbs(kind)) for kind in kinds]
    lease = Rule(LEASE.group, LEASE.plural, _READ, (lease_name,))
    status = Rule(MODEL.group, f"{MODEL.plural}/status", ("patch",))
    return tuple(sorted([*reads, lease, status, _EVENTS], key=_order))


def own_namespace_rules(lease_name: str) -> tuple[Rule, ...]:
    """For the Role in the operator's namespace: its Lease. `create` cannot be limited to a name."""
    return (
        Rule(LEASE.group, LEASE.plural, ("create",)),
        Rule(LEASE.group, LEASE.plural, ("get", "update"), (lease_name,)),
    )


_EVENTS: Final = Rule(EVENT.group, EVENT.plural, ("create",))


def _verbs(kind: Kind) -> tuple[str, ...]:
    if kind not in CHILD_KINDS:
        return _READ
    deletes = ("delete",) if kind in PRUNED_KINDS else ()
    return tuple(sorted((*_READ, *_WRITE, *deletes)))


def _order(rule: Rule) -> tuple[str, str]:
    return (rule.group, rule.resource)


def permissions(lease_name: str) -> Iterator[tuple[str, str, str]]:
    """Every (group, resource, verb), in whichever role it stands."""
    for rule in (*cluster_rules(lease_name), *own_namespace_rules(lease_name)):
        for verb in rule.verbs:
            yield (rule.group, rule.resource, verb)
