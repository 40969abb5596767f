"""What is rendered, on a real API server: stored as it was sent, and admitted where it must be.

These tests need no node and no operator, so they have a control plane of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
import yaml
from tests.golden.test_plans import CASES, Case
from tests.support.apiserver import BUILD_SECONDS, ControlPlane, control_plane
from tests.support.builders import environment
from tests.support.kube import MODEL, Kube, KubectlError, Object
from tests.support.manifests import RESTRICTED
from tests.support.onenode import COMMAND, run
from tests.support.waiting import until

from kindling_operator.apply.needs import needs_apply, stamped
from kindling_operator.cli import main
from kindling_operator.cli_files import snapshot_of
from kindling_operator.model.names import ANNOTATION_REPLAN, CHILD_KINDS, FIELD_MANAGER, Key
from kindling_operator.model.parse import parse
from kindling_operator.observe.parse import child
from kindling_operator.plan import plan
from kindling_operator.render import Manifest, render

pytestmark = pytest.mark.cluster

NAMESPACE: Final = "ml"
KINDS: Final = {kind.kind: kind for kind in CHILD_KINDS}
PLANNED: Final = tuple(case for case in CASES if not case.code)
EACH = pytest.mark.parametrize("case", PLANNED, ids=lambda case: f"{case.model}-on-{case.nodes}")


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    """A cluster that has the CRDs, and a namespace in which only restricted pods may run."""
    folder: Path = tmp_path_factory.mktemp("rendered")
    plane: ControlPlane
    with control_plane(folder) as plane:
        found = Kube(plane.environment)
        _serve_groups(found)
        namespace = {"name": NAMESPACE, "labels": RESTRICTED}
        found.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": namespace})
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 10}
        found.apply({**priority, "metadata": {"name": "serving"}})
        yield found
        found.close()


def _serve_groups(kube: Kube) -> None:
    """The LeaderWorkerSet API of the release that the test cluster installs."""
    folder = Path(run(COMMAND, "build", "lws", seconds=BUILD_SECONDS).split()[-1])
    kube.kubectl("apply", "--server-side", "-f", str(folder / "chart" / "crds"))
    until(
        "the API server to serve LeaderWorkerSets",
        lambda: kube.kubectl("get", "leaderworkersets", "-A") or True,
        seconds=30,
        every=0.1,
        forgive=(KubectlError,),
    )


@dataclass(frozen=True, slots=True)
class Made:
    """A model in the cluster, and what is rendered for it."""

    key: Key
    manifests: tuple[Manifest, ...]


def made(kube: Kube, case: Case) -> Made:
    """Apply the model of a case as a user does, and render its plan for the object that results."""
    body = yaml.safe_load(case.model_file.read_text())
    key = Key(NAMESPACE, f"{body['metadata']['name']}-{case.nodes}")
    kube.apply({**body, "metadata": {"name": key.name, "namespace": key.namespace}})
    live = parse(kube.have(MODEL, key.name, key.namespace))
    files = snapshot_of(
        str(case.model_file),
        nodes_file=str(case.nodes_file),
        pods_file=None,
        namespace=NAMESPACE,
        environment=environment(),
    )
    snapshot = replace(files, models={key: live})
    found = tuple(map(stamped, render(snapshot, plan(snapshot, key))))
    assert [manifest["kind"] for manifest in found][-1] in {"Deployment", "LeaderWorkerSet"}
    return Made(key, found)


def server_side_apply(kube: Kube, manifests: tuple[Manifest, ...]) -> None:
    options = ("--server-side", "--force-conflicts", f"--field-manager={FIELD_MANAGER}")
    kube.kubectl("apply", *options, "-f", "-", stdin=yaml.safe_dump_all(manifests))


def stored(kube: Kube, manifest: Manifest) -> Object:
    metadata = manifest["metadata"]
    return kube.have(KINDS[manifest["kind"]], metadata["name"], metadata["namespace"])


def templates(workload: Manifest) -> tuple[Object, ...]:
    """The pod templates of a Deployment or of a LeaderWorkerSet."""
    if workload["kind"] == "Deployment":
        return (workload["spec"]["template"],)
    group = workload["spec"]["leaderWorkerTemplate"]
    return group["leaderTemplate"], group["workerTemplate"]


@EACH
def test_what_is_stored_is_what_was_sent(kube: Kube, case: Case) -> None:
    """Quantities, empty fields, numbers: the API server writes none of them otherwise."""
    found = made(kube, case)
    server_side_apply(kube, found.manifests)

    for manifest in found.manifests:
        kind = KINDS[manifest["kind"]]
        view = child(stored(kube, manifest), kind)
        assert not needs_apply(manifest, view), manifest["kind"]
        assert view.owner == found.key


@EACH
def test_applying_again_changes_nothing(kube: Kube, case: Case) -> None:
    found = made(kube, case)
    server_side_apply(kube, found.manifests)
    before = [stored(kube, each)["metadata"]["resourceVersion"] for each in found.manifests]

    server_side_apply(kube, found.manifests)

    after = [stored(kube, each)["metadata"]["resourceVersion"] for each in found.manifests]
    # A controller writes the workload's status and annotation meanwhile.
    assert before[:-1] == after[:-1]


@EACH
def test_the_pod_is_admitted_under_the_restricted_profile(kube: Kube, case: Case) -> None:
    """Pod Security itself judges the pod; a pod that breaks the profile is refused here."""
    found = made(kube, case)
    server_side_apply(kube, found.manifests)
    for template in templates(found.manifests[-1]):
        account = {"name": template["spec"]["serviceAccountName"], "namespace": NAMESPACE}
        kube.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template["metadata"], "name": "judged", "namespace": NAMESPACE},
            "spec": template["spec"],
        }

        told = kube.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))

        assert told == "pod/judged created (server dry run)\n"


def test_replan_writes_the_moment_and_nothing_else(
    kube: Kube, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", kube.environment["KUBECONFIG"])
    key = made(kube, PLANNED[0]).key
    before = kube.have(MODEL, key.name, key.namespace)

    assert main(["replan", f"im/{key.name}", "-n", key.namespace]) == 0

    after = kube.have(MODEL, key.name, key.namespace)
    moment = after["metadata"]["annotations"].pop(ANNOTATION_REPLAN)
    assert capsys.readouterr().out == (
        f"{key} plans anew as of {moment}, and its replicas are replaced; follow it with:"
        f" kubectl get im {key.name} -n ml -w\n"
    )
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    (ours,) = (m for m in after["metadata"]["managedFields"] if m["manager"] == "kindling-cli")
    assert ours["operation"] == "Apply"


def test_replan_of_a_model_that_is_not_there(
    kube: Kube, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", kube.environment["KUBECONFIG"])

    assert main(["replan", "im/nobody", "-n", "ml"]) == 1

    err = capsys.readouterr().err
    assert err.startswith("kindling: ")
    assert "ml/nobody" in err
    assert kube.get(MODEL, "nobody", "ml") is None
