"""What the pods of others take of the nodes, kept as small as it gets.

kopf keeps the whole body of whatever it watches: 4,000 pods cost 211 MiB. Here a pod without GPUs
is one entry of a dict, whose value it shares with every pod of its node and size.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec

from kindling_operator.model.objects import NodeUse, PodView
from kindling_operator.observe.requests import PodBody, Requests, requests_of

_Share = tuple[str, Requests]
_LONG_AGO: Final = datetime.fromtimestamp(0, UTC)


class ForeignPods:
    """Sums by node, and the single pods that hold GPUs. Bodies are JSON as the API sends them.

    `uses` and `holds` count the changes of the sums and of the holders.
    """

    def __init__(self) -> None:
        self.uses = 0
        self.holds = 0
        self._shares: dict[str, _Share] = {}
        self._interned: dict[str, dict[Requests, _Share]] = {}
        self._holders: dict[str, PodView] = {}
        self._used: dict[str, NodeUse] = {}

    def __len__(self) -> int:
        return len(self._shares) + len(self._holders)

    @property
    def used(self) -> dict[str, NodeUse]:
        """What the pods without GPUs take, by node; a copy."""
        return dict(self._used)

    @property
    def holders(self) -> tuple[PodView, ...]:
        """The pods that hold or await GPUs, in no order."""
        return tuple(self._holders.values())

    def put(self, body: bytes | msgspec.Raw) -> bool:
        """A pod as it is now, and whether that changes anything; one that cannot be read takes
        nothing."""
        try:
            pod = _DECODER.decode(body)
        except msgspec.MsgspecError:
            return False
        uid, share = pod.metadata.uid, _share_of(pod)
        if self._known(uid) == share:
            return False
        self._forget(uid)
        if share is not None and share[1].gpus:
            self._holders[uid] = _holder(pod, *share)
            self.holds += 1
        elif share is not None:
            of_node = self._interned.setdefault(share[0], {})
            self._shares[uid] = of_node.setdefault(share[1], share)
            self._count(share, 1)
        return True

    def drop(self, body: bytes | msgspec.Raw) -> bool:
        """A pod that is gone, and whether that changes anything."""
        try:
            return self._forget(_DECODER.decode(body).metadata.uid)
        except msgspec.MsgspecError:
            return False

    def _known(self, uid: str) -> _Share | None:
        """What was counted of a pod; most events change nothing of it."""
        holder = self._holders.get(uid)
        if holder is None:
            return self._shares.get(uid)
        amounts = Requests(holder.gpus, holder.cpu_millis, holder.memory, holder.ephemeral)
        return holder.node, amounts

    def _forget(self, uid: str) -> bool:
        if self._holders.pop(uid, None) is not None:
            self.holds += 1
            return True
        share = self._shares.pop(uid, None)
        if share is None:
            return False
        self._count(share, -1)
        return True

    def _count(self, share: _Share, times: int) -> None:
        self.uses += 1
        node, (_, cpu, memory, ephemeral) = share
        used = self._used.get(node) or NodeUse()
        if used.pods + times == 0:
            del self._used[node], self._interned[node]
            return
        self._used[node] = NodeUse(
            cpu_millis=used.cpu_millis + times * cpu,
            memory=used.memory + times * memory,
            ephemeral=used.ephemeral + times * ephemeral,
            pods=used.pods + times,
        )


def _share_of(pod: PodBody) -> _Share | None:
    """Its node and what it takes; None for one that takes nothing now."""
    if pod.ended:
        return None
    wanted = requests_of(pod)
    return (pod.spec.nodeName, wanted) if pod.spec.nodeName or wanted.gpus else None


def _holder(pod: PodBody, node: str, wanted: Requests) -> PodView:
    return PodView(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        created=_LONG_AGO,
        node=node,
        phase=pod.status.phase,
        gpus=wanted.gpus,
        model=None,
        revision="",
        ready=False,
        terminating=False,
        cpu_millis=wanted.cpu_millis,
        memory=wanted.memory,
        ephemeral=wanted.ephemeral,
    )


_DECODER: Final = msgspec.json.Decoder(PodBody)
