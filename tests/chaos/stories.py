"""What several of these tests begin or end with."""

import time
from typing import Final

from tests.support import audit, kubelet
from tests.support.apiserver import ControlPlane
from tests.support.kube import AWAY, COMMON_KINDS, Kube
from tests.support.manifests import tiny
from tests.support.waiting import until

NAME: Final = "tiny"
URI: Final = "file:///models/tiny"
SECONDS: Final = 90
QUIET_SECONDS: Final = 1.5


def apply(kube: Kube, namespace: str) -> None:
    """Ask for the model."""
    kube.apply(tiny(NAME, namespace, uri=URI))


def made(kube: Kube, namespace: str, *, seconds: float = SECONDS) -> list[str]:
    """The model's children, once all are there."""

    def all_there() -> list[str] | None:
        found = kube.children(NAME, namespace)
        kinds = {child.split()[0] for child in found}
        return found if {kind.kind for kind in COMMON_KINDS} <= kinds else None

    return until(
        f"all children of {namespace}/{NAME}",
        all_there,
        seconds=seconds,
        every=0.1,
        show=lambda: kube.told(NAME, namespace),
        forgive=AWAY,
    )


def ready(kube: Kube, namespace: str) -> None:
    """The model with one pod that serves, by the test's own hand."""
    apply(kube, namespace)
    serve(kube, namespace)


def serve(kube: Kube, namespace: str) -> None:
    """Let the model's one pod serve."""
    (pod,) = kubelet.serving_pods(kube, NAME, namespace, count=1)
    kubelet.run(kube, pod, ready=True)
    kube.wait_condition(NAME, namespace, type="Ready", seconds=SECONDS)


def settle(plane: ControlPlane, *users: str) -> int:
    """Wait until these users have written nothing for a while; where the audit log ends then."""
    mark = audit.end(plane.audit_log)

    def quiet() -> bool:
        nonlocal mark
        time.sleep(QUIET_SECONDS)
        since, mark = mark, audit.end(plane.audit_log)
        return not any(audit.written(plane.audit_log, user, start=since) for user in users)

    until("the operator to have nothing left to write", quiet, seconds=SECONDS)
    return mark
