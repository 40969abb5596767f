"""An upgrade of the operator changes no serving pod; the user's word does.

The next version is this one with a renderer that adds a label, an environment variable and an
argument to every pod. The tests run in order and share one model: each starts from what the last
one left.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from tests.support import install, manifests
from tests.support.faults import serving_pod, serving_pods
from tests.support.fixtures import READY_SECONDS, Engine
from tests.support.install import NAMESPACE, OPERATOR, Images
from tests.support.kube import MODEL, POD, Kube, Object, conditions
from tests.support.onenode import run
from tests.support.overlay import overlaid
from tests.support.phases import recorded
from tests.support.waiting import until

from kindling_operator.kube.kinds import LEASE
from kindling_operator.model import names

pytestmark = pytest.mark.cluster

NAME: Final = "steady"
LABEL: Final = "example.com/newer"
VARIABLE: Final = "NEWER_RENDERER"
RENDERER: Final = "kindling_operator.render.podtemplate"
NEWER: Final = f'''

_older_pod_template = pod_template


def pod_template(key, revision, plan):
    template = _older_pod_template(key, revision, plan)
    template["metadata"]["labels"]["{LABEL}"] = "yes"
    [engine] = template["spec"]["containers"]
    engine["env"].append({{"name": "{VARIABLE}", "value": "yes"}})
    engine["args"] = ["--plan", PLAN_PATH]
    return template
'''
PRINT_SOURCE: Final = (
    f"import inspect, {RENDERER} as m; print(m.__file__); print(inspect.getsource(m))"
)

PRINT_METRICS: Final = (
    "from urllib.request import urlopen;"
    " print(urlopen('http://localhost:9090/metrics', timeout=10).read().decode())"
)


@pytest.fixture(scope="module")
def steady(namespace: str, kube: Kube, operator: Images) -> Engine:
    """The model of this file, served by the version of this checkout."""
    with recorded(kube, NAME, namespace) as recording:
        kube.apply(manifests.tiny(NAME, namespace))
        kube.wait_condition(NAME, namespace, type="Ready", seconds=READY_SECONDS)
    return Engine(NAME, namespace, recording)


@pytest.fixture(scope="module")
def before(steady: Engine, kube: Kube) -> Object:
    """Its pod before the upgrade."""
    return serving_pod(kube, NAME, steady.namespace)


@pytest.fixture(scope="module")
def upgraded(before: Object, kube: Kube, operator: Images) -> Iterator[Images]:
    """The next version, at work; this checkout's is back at the end."""
    path, _, source = kube.kubectl(
        "exec", "-n", NAMESPACE, f"deployment/{OPERATOR}", "--", "python", "-c", PRINT_SOURCE
    ).partition("\n")
    image = overlaid(operator.operator, {path: (source + NEWER).encode()})
    images = replace(operator, operator=image)
    install.install(kube, images)
    _wait_for_a_pass(kube, image)
    yield images
    install.install(kube, operator)


def _wait_for_a_pass(kube: Kube, image: str) -> None:
    """Wait until a pod of that image holds the Lease and has been through every model once."""

    def leader() -> str | None:
        lease = kube.get(LEASE, OPERATOR, NAMESPACE)
        holder = (lease or {}).get("spec", {}).get("holderIdentity", "").partition("_")[0]
        pod = kube.get(POD, holder, NAMESPACE) if holder else None
        return holder if pod and pod["spec"]["containers"][0]["image"] == image else None

    pod = until("the upgraded operator to lead", leader, seconds=60, say=kube.say)
    models = len(kube.find(MODEL))

    def passed() -> bool:
        out = kube.kubectl("exec", "-n", NAMESPACE, pod, "--", "python", "-c", PRINT_METRICS)
        found = re.search(r'^kindling_reconcile_seconds_count{stage="apply"} (\S+)$', out, re.M)
        return found is not None and float(found[1]) >= models

    until("it to have been through every model", passed, seconds=60, say=kube.say)


def _template(pod: Object) -> Object:
    """What of a pod comes from its template and a renderer may change."""
    [engine] = pod["spec"]["containers"]
    kept = ("command", "args", "env", "image", "resources", "ports", "volumeMounts")
    labels = pod["metadata"]["labels"]
    return {"labels": labels, **{field: engine.get(field) for field in kept}}


def _same(now: Object, before: Object) -> bool:
    """Whether it is the same pod, its containers never restarted."""
    return bool(
        now["metadata"]["uid"] == before["metadata"]["uid"]
        and _template(now) == _template(before)
        and [each["containerID"] for each in now["status"]["containerStatuses"]]
        == [each["containerID"] for each in before["status"]["containerStatuses"]]
    )


def _revisions(kube: Kube, namespace: str) -> set[str]:
    selector = f"{names.LABEL_MODEL}={NAME}"
    found = kube.find(names.CONTROLLER_REVISION, namespace, selector=selector)
    return {each["metadata"]["name"] for each in found}


def test_an_upgrade_leaves_the_pod_alone(
    upgraded: Images, steady: Engine, before: Object, kube: Kube
) -> None:
    namespace = steady.namespace
    kube.wait_condition(NAME, namespace, type="Ready", seconds=60)

    assert _same(serving_pod(kube, NAME, namespace), before)
    assert len(_revisions(kube, namespace)) == 1


def test_a_deleted_status_is_written_again_and_changes_nothing(
    upgraded: Images, steady: Engine, before: Object, kube: Kube
) -> None:
    namespace = steady.namespace
    plan = kube.have(MODEL, NAME, namespace)["status"]["plan"]
    kube.kubectl(
        "patch", "im", NAME, "-n", namespace, "--subresource=status", "--type=merge",
        "--patch", '{"status": null}',
    )  # fmt: skip

    found = kube.wait_condition(NAME, namespace, type="Ready", seconds=60)

    assert found["status"]["plan"] == plan
    assert _same(serving_pod(kube, NAME, namespace), before)
    assert len(_revisions(kube, namespace)) == 1


@pytest.mark.slow
def test_a_second_replica_is_made_as_the_first_was(
    upgraded: Images, steady: Engine, before: Object, kube: Kube
) -> None:
    namespace = steady.namespace
    kube.kubectl("scale", "im", NAME, "-n", namespace, "--replicas=2")
    until(
        "both replicas to be ready",
        lambda: kube.have(MODEL, NAME, namespace)["status"].get("readyReplicas") == 2,
        seconds=READY_SECONDS,
        say=kube.say,
        show=lambda: kube.told(NAME, namespace),
    )
    pods = {pod["metadata"]["uid"]: pod for pod in serving_pods(kube, NAME, namespace)}
    first = pods.pop(before["metadata"]["uid"])
    [second] = pods.values()

    assert _same(first, before)
    assert _template(second) == _template(before)
    kube.kubectl("scale", "im", NAME, "-n", namespace, "--replicas=1")
    kube.wait_condition(NAME, namespace, type="Ready", seconds=60)
    until(
        "one replica to be left",
        lambda: len(serving_pods(kube, NAME, namespace)) == 1,
        seconds=120,
        say=kube.say,
    )


@pytest.mark.slow
def test_replan_takes_the_new_rendering(upgraded: Images, steady: Engine, kube: Kube) -> None:
    namespace = steady.namespace
    old = serving_pod(kube, NAME, namespace)
    kindling = Path(sys.executable).parent / "kindling"
    run(kindling, "replan", f"im/{NAME}", "-n", namespace, seconds=60, env=kube.environment)

    new = until(
        "the replica to be replaced",
        lambda: _replacement(kube, namespace, old),
        seconds=READY_SECONDS,
        say=kube.say,
        show=lambda: kube.told(NAME, namespace),
    )
    found = kube.wait_condition(NAME, namespace, type="Ready", seconds=60)
    [engine] = new["spec"]["containers"]
    assert new["metadata"]["labels"][LABEL] == "yes"
    assert {"name": VARIABLE, "value": "yes"} in engine["env"]
    assert engine["args"] == ["--plan", "/etc/kindling/plan.json"]
    annotation = found["metadata"]["annotations"][names.ANNOTATION_REPLAN]
    assert found["status"]["plan"]["replan"] == annotation
    assert conditions(found)["Ready"].status == "True"


def _replacement(kube: Kube, namespace: str, old: Object) -> Object | None:
    """The one pod that serves, once it is another than the old one."""
    pods = serving_pods(kube, NAME, namespace)
    if len(pods) != 1 or pods[0]["metadata"]["uid"] == old["metadata"]["uid"]:
        return None
    return pods[0]
