"""The operator as a process beside a real API server, and the faults that it must survive.

No node runs here: tests patch pod statuses in the kubelet's place where a pod has to be ready.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support import kubelet, manifests
from tests.support.apiserver import ControlPlane, control_plane
from tests.support.fixtures import deadlines
from tests.support.kube import POD, Kube
from tests.support.operator_process import LEASE_NAME, NAMESPACE, OperatorProcess
from tests.support.roles import roles
from tests.support.waiting import until

from kindling_operator.kube.kinds import LEASE

FIRST, SECOND = "operator-a", "operator-b"

StartOperator = Callable[..., OperatorProcess]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A deadline for every test of this folder."""
    deadlines(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with the CRD."""
    folder = tmp_path_factory.mktemp("plane")
    with control_plane(folder, FIRST, SECOND, admins=False) as found:
        yield found


@pytest.fixture(scope="session")
def kube(plane: ControlPlane) -> Iterator[Kube]:
    """The control plane as its admin; the operators have their table's permissions, no other."""
    found = Kube(plane.environment)
    found.kubectl("create", "namespace", NAMESPACE)
    found.apply(*roles(FIRST, SECOND, namespace=NAMESPACE, lease=LEASE_NAME))
    kubelet.make_node(found)
    yield found
    found.close()


@pytest.fixture
def namespace(kube: Kube) -> Iterator[str]:
    """A namespace of the test's own, gone afterwards."""
    name = f"chaos-{uuid4().hex[:8]}"
    kube.apply(manifests.namespace(name))
    until(
        f"the default ServiceAccount of {name}",
        lambda: kube.kubectl("get", "sa", "-n", name, "-o", "name"),
        seconds=30,
        every=0.1,
    )
    yield name
    kube.kubectl("delete", "inferencemodels", "--all", "-n", name)

    def empty() -> bool:
        kubelet.end_leaving(kube, name)
        return not kube.find(POD, name)

    until(f"the pods of {name} to be gone", empty, seconds=120, every=0.2)
    kube.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def start(plane: ControlPlane, kube: Kube, tmp_path: Path) -> Iterator[StartOperator]:
    """Starts operators and kills them at the end; nobody holds the Lease before the test."""
    kube.delete(LEASE, LEASE_NAME, NAMESPACE)
    begun: list[OperatorProcess] = []

    def begin(user: str = FIRST, **changes: object) -> OperatorProcess:
        made = OperatorProcess(plane, user, tmp_path, **changes)  # type: ignore[arg-type]
        begun.append(made)
        made.start()
        return made

    yield begin
    for each in begun:
        each.kill()


@pytest.fixture
def operator(start: StartOperator, kube: Kube) -> OperatorProcess:
    """One operator that leads."""
    made = start()
    made.wait_leading(kube)
    return made
