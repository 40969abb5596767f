"""What the operator costs: an unchanged object, the first child of a new one, memory at rest."""

import json
import statistics
import time
from datetime import datetime
from typing import Final

from tests.bench.figure import Figure
from tests.support import audit, faults, manifests
from tests.support.install import OPERATOR_USER
from tests.support.kube import MODEL, NAMESPACE, Kube
from tests.support.onenode import Cluster
from tests.support.waiting import until

from kindling_operator.model import names

BENCH: Final = "bench"
CHILD_RESOURCES: Final = frozenset(kind.plural for kind in names.CHILD_KINDS)

TOUCHES: Final = 60
CREATED: Final = 15
ROUND_TRIPS: Final = 500
PAUSE_SECONDS: Final = 0.5
REST_SECONDS: Final = 20
"""Time without any change, to subtract what the operator does anyway and to settle its memory."""

TICKS_PER_SECOND: Final = 100
"""Of /proc/PID/stat: USER_HZ is 100 on every Linux that Kubernetes runs on."""


class OperatorCost:
    """Measures one installed operator from outside: /proc, and the API server's audit log."""

    def __init__(self, cluster: Cluster, kube: Kube) -> None:
        self._cluster = cluster
        self._kube = kube
        self._log = cluster.audit_log
        self._pid = next(iter(cluster.processes(faults.operator_pod(kube))))

    def figures(self) -> list[Figure]:
        """All of them, one after the other, in a namespace that is removed at the end."""
        self._kube.apply(manifests.namespace(BENCH))
        try:
            return [*self._unchanged(), *self._first_child(), self._memory()]
        finally:
            self._kube.delete(NAMESPACE, BENCH)
            self._kube.wait_gone(NAMESPACE, BENCH, seconds=120)

    def _unchanged(self) -> list[Figure]:
        """Touch an object's annotations, which asks for a reconcile and changes nothing."""
        self._apply("still")
        time.sleep(REST_SECONDS)
        at_rest = self._cpu_seconds(REST_SECONDS)
        mark, before, started = audit.end(self._log), self._ticks(), time.monotonic()
        for number in range(TOUCHES):
            self._touch("still", number)
            time.sleep(PAUSE_SECONDS)
        time.sleep(2)
        spent = (self._ticks() - before) / TICKS_PER_SECOND
        spent -= at_rest * (time.monotonic() - started)
        writes = audit.written(self._log, OPERATOR_USER, start=mark)
        return [
            Figure(
                "reconcile of an unchanged object",
                "ms of CPU",
                (1000 * spent / TOUCHES,),
                target=5,
                base=self._round_trip("still"),
                base_name="one JSON round trip of the object",
                note=f"{TOUCHES} reconciles, the operator's use at rest subtracted",
            ),
            Figure(
                "writes of those reconciles", "requests", (len(writes),), target=0, note="audit log"
            ),
        ]

    def _first_child(self) -> list[Figure]:
        """From the user's write reaching the API server to the operator's first one answered."""
        mark = audit.end(self._log)
        for number in range(CREATED):
            self._apply(f"new-{number}")
            time.sleep(1)
        created: dict[str, audit.Request] = {}
        first: dict[str, audit.Request] = {}
        for each in audit.requests(self._log, start=mark):
            if each.namespace != BENCH or not each.writes:
                continue
            if each.user != OPERATOR_USER and each.resource == names.PLURAL:
                created.setdefault(each.name, each)
            elif each.user == OPERATOR_USER and each.resource in CHILD_RESOURCES:
                first.setdefault(_model_of(each.name), each)
        samples = [_milliseconds(created[name].received, first[name].done) for name in created]
        bare = [_milliseconds(each.received, each.done) for each in created.values()]
        return [
            Figure(
                "apply to the first child created",
                "ms",
                tuple(samples),
                target=300,
                base=statistics.median(bare),
                base_name="the user's own write",
                note="audit log",
            )
        ]

    def _memory(self) -> Figure:
        time.sleep(REST_SECONDS)
        return Figure(
            "operator at rest", "MiB of RSS", (self._cluster.resident_mib(self._pid),), target=110
        )

    def _apply(self, name: str) -> None:
        """A model without replicas: all of its children, and no pod that takes CPU."""
        self._kube.apply(manifests.tiny(name, BENCH, uri="file:///none", replicas=0))
        self._kube.wait_condition(name, BENCH, type="Accepted", seconds=30)
        until(
            "its Deployment",
            lambda: (
                self._kube.find(names.DEPLOYMENT, BENCH, selector=f"{names.LABEL_MODEL}={name}")
                or None
            ),
            seconds=30,
            every=0.2,
        )

    def _touch(self, name: str, number: int) -> None:
        patch = {"metadata": {"annotations": {"example.com/touched": str(number)}}}
        self._kube.patch(MODEL, name, BENCH, patch)

    def _round_trip(self, name: str) -> float:
        """Milliseconds to write and read the object as JSON in this Python: its speed here."""
        found = self._kube.have(MODEL, name, BENCH)
        started = time.process_time()
        for _ in range(ROUND_TRIPS):
            json.loads(json.dumps(found))
        return 1000 * (time.process_time() - started) / ROUND_TRIPS

    def _ticks(self) -> int:
        fields = self._cluster.node("cat", f"/proc/{self._pid}/stat").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def _cpu_seconds(self, period: float) -> float:
        """Seconds of CPU per second, over a period."""
        before = self._ticks()
        time.sleep(period)
        return (self._ticks() - before) / TICKS_PER_SECOND / period


def _model_of(child: str) -> str:
    """new-3 of new-3 and of new-3-0123456789."""
    return "-".join(child.split("-")[:2])


def _milliseconds(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds() * 1000
