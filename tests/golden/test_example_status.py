"""The example of the reference: a status as the planner and the report compute it, not typed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import yaml
from tests.support.builders import Cluster, catalog_spec, gpu_node
from tests.support.golden import check_golden
from tests.support.onenode import ROOT

from kindling_operator.model.names import Key
from kindling_operator.model.outcome import Outcome
from kindling_operator.report.status import status

INKLING: Final = Key("ml", "inkling")
SPEC: Final = catalog_spec(
    "inkling",
    serving={
        "contextLength": 262_144,
        "concurrency": 8,
        "speculation": {"mode": "Fixed", "tokens": 4},
    },
    replicas=2,
)
HEAD: Final = """\
# The status of this InferenceModel on two nodes of 8 B200, each with a replica that serves.
# Written by `make golden`, never by hand.
"""


def example() -> str:
    nodes = tuple(gpu_node(f"gpu-{number}", "NVIDIA-B200") for number in range(2))
    found = Cluster(nodes=nodes).apply(SPEC, key=INKLING, generation=3)
    made = found.step(INKLING).current
    assert made is not None
    found.serve(made.hash, key=INKLING, node="gpu-0", gpus=8)
    found.pods = tuple(
        replace(pod, node=node.name) for pod, node in zip(found.pods, nodes, strict=True)
    )
    decision = found.step(INKLING)
    wire = status(found.snapshot(), decision, Outcome()).to_wire()
    document = {"spec": SPEC, "status": wire}
    return HEAD + yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True)


def test_the_example_status_is_what_is_computed() -> None:
    check_golden(ROOT / "docs" / "reference" / "example-status.yaml", example())


def test_the_example_is_in_good_order() -> None:
    told = yaml.safe_load(example())["status"]

    assert told["plan"]["summary"] == ("8x NVIDIA-B200 in one node, NVFP4, TP8, MTP 4, 262144 ctx")
    ready = {each["type"]: each["status"] for each in told["conditions"]}
    assert ready["Ready"] == ready["Accepted"] == ready["Scheduled"] == "True"
    lines = told["plan"]["memoryPerGPU"]
    assert sum(line["bytes"] for line in lines) == -(-(183_359 << 20) * 92 // 100)
