"""A replica of two pods with the real vLLM: tensor ranks on CPU, one in each pod.

The planner never spreads a CPU model, so the plan is made by hand and stored as a revision: stored
plans are applied as they are.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import msgspec
import pytest
from tests.support import manifests
from tests.support.fixtures import CLAIM_NAME, READY_SECONDS, Cluster
from tests.support.install import Images
from tests.support.kube import CLAIM, MODEL, NODE, POD, Kube, Object, conditions
from tests.support.openai_access import client
from tests.support.waiting import until

from kindling_operator import catalog
from kindling_operator.apply.needs import stamped
from kindling_operator.model import names
from kindling_operator.model.layout import Layout
from kindling_operator.model.names import LEADER_WORKER_SET, Key
from kindling_operator.model.objects import ClaimView
from kindling_operator.model.parse import ParsedModel, parse
from kindling_operator.model.plan import Revision
from kindling_operator.model.snapshot import Environment, Snapshot
from kindling_operator.observe.nodes import node as node_view
from kindling_operator.plan import plan
from kindling_operator.plan.ranks import group_plan, layout_arguments
from kindling_operator.plan.revision import new_revision
from kindling_operator.render.revision import controller_revision

pytestmark = pytest.mark.cluster

NAME: Final = "pair"
LATE: Final = "late"
"""The claim is made last: until then the operator has nothing to decide on."""
LAYOUT: Final = Layout(tensor=2, nodes=2)
SELECTOR: Final = f"{names.LABEL_MODEL}={NAME}"


def stored_plan(kube: Kube, images: Images, model: Object) -> Object:
    """The ControllerRevision of the model with a plan of two pods."""
    parsed = parse(model)
    assert isinstance(parsed, ParsedModel)
    key = Key(model["metadata"]["namespace"], NAME)
    decision = plan(
        Snapshot(
            now=datetime.now(UTC),
            synced=True,
            environment=Environment(
                cuda_image="unused",
                cpu_image=images.runtime_cpu,
                catalog=catalog.load_all(),
                runtimes=catalog.runtimes.load_all(),
            ),
            models={key: parsed},
            nodes=tuple(node_view(node) for node in kube.find(NODE)),
            claims=(ClaimView(key.namespace, LATE, "Bound", terminating=False),),
        ),
        key,
    )
    assert decision.current is not None, decision.verdicts
    alone = decision.current.plan
    pair = msgspec.structs.replace(
        alone,
        summary="CPU in 2 pods, BF16, TP2, by hand",
        argv=(*alone.argv, *layout_arguments(LAYOUT)),
        # vLLM 0.32 compiles the embedding of tensor ranks, and the image has no compiler.
        env={**alone.env, "TORCHDYNAMO_DISABLE": "1"},
        pod=msgspec.structs.replace(alone.pod, cpu_millis=250),
        group=group_plan(LAYOUT),
    )
    revision: Revision = replace(new_revision(parsed, pair))
    return stamped(controller_revision(parsed.metadata, revision))


@pytest.fixture(scope="module")
def pair(cluster: Cluster, kube: Kube, operator: Images, namespace: str) -> Iterator[str]:
    """The model with its group of two real engines, enforced network policies and all, Ready."""
    cluster.addon("lws")
    cluster.addon("netpol")
    cluster.release("netpol")
    kube.apply(manifests.tiny(NAME, namespace, uri=f"pvc://{LATE}/tiny"))
    model = kube.wait_condition(
        NAME, namespace, type="Scheduled", status="False", reason="ClaimNotBound", seconds=60
    )
    revision = json.dumps(stored_plan(kube, operator, model))
    kube.kubectl(
        "apply", "--server-side", f"--field-manager={names.FIELD_MANAGER}", "-f", "-",
        stdin=revision,
    )
    group = until(
        "the group to be made",
        lambda: kube.find(LEADER_WORKER_SET, namespace, selector=SELECTOR),
        seconds=120,
        say=kube.say,
        show=lambda: kube.told(NAME, namespace),
    )
    cluster.volume(f"{namespace}-{LATE}", _weights(cluster, namespace))
    yield group[0]["metadata"]["name"]
    cluster.hold("netpol")
