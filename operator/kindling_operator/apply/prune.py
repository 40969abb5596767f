"""What to delete: objects of ours that the decision no longer wants. Pure."""

from collections.abc import Iterable

from kindling_operator.model.names import PRUNED_KINDS, WORKLOAD_KINDS, Key, Kind
from kindling_operator.model.objects import ObjectRef
from kindling_operator.model.snapshot import Snapshot


def left_over(
    snapshot: Snapshot, key: Key, wanted: Iterable[tuple[Kind, str]]
) -> tuple[ObjectRef, ...]:
    """Children of this very InferenceModel that are not wanted, in reverse order of apply.

    A Service or NetworkPolicy is none of them (PRUNED_KINDS). Nothing goes while the watches have
    not delivered everything, nor when the model is being deleted: its children go by their owner
    references.
    Where nothing at all is wanted, leftovers of an unfinished creation go, but never a workload:
    a decision that wants nothing knows of nothing that runs, so something is wrong, and a running
    model is worth more than tidiness.
    """
    model = snapshot.models.get(key)
    if not snapshot.synced or model is None or model.metadata.deletion is not None:
        return ()
    if not model.metadata.uid:
        return ()
    keep = set(wanted)
    order = {kind: place for place, kind in enumerate(PRUNED_KINDS)}
    leave = [
        child.ref
        for child in snapshot.children.get(key, ())
        if child.ref.kind in order
        and child.owner_uid == model.metadata.uid
        and not child.terminating
        and (child.ref.kind, child.ref.name) not in keep
    ]
    if not keep and any(ref.kind in WORKLOAD_KINDS for ref in leave):
        return ()
    return tuple(sorted(leave, key=lambda ref: (-order[ref.kind], ref.name)))
