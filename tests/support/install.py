"""Kindling on the one-node cluster as a user installs it: images in a registry, chart by helm."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.support.kube import Kube
from tests.support.onenode import ROOT, Cluster, run
from tests.support.waiting import Say, until

from kindling_operator.model.names import DEPLOYMENT

RELEASE: Final = "kindling"
NAMESPACE: Final = "kindling-system"
OPERATOR: Final = "kindling-operator"
OPERATOR_USER: Final = f"system:serviceaccount:{NAMESPACE}:{OPERATOR}"
OPERATOR_PODS: Final = "app.kubernetes.io/name=kindling,app.kubernetes.io/component=operator"
CHART: Final = ROOT / "charts" / "kindling"

IMAGE_SECONDS: Final = 30 * 60
"""A cold build fetches 2.5 GB of wheels: about 5 minutes on two idle cores."""

_REFERENCE: Final = re.compile(r"^(?:[\w-]+=)?(?P<reference>\S+/(?P<name>[\w-]+)@sha256:\w+)$")


@dataclass(frozen=True, slots=True)
class Images:
    """Complete references, by digest, of the images in the cluster's registry."""

    operator: str
    runtime_cpu: str


def build_images(cluster: Cluster, *, say: Say = print) -> Images:
    """Build the operator and runtime-cpu images and push them into the cluster's registry."""
    out = run(
        ROOT / "images" / "build",
        "--push",
        cluster.registry,
        "operator",
        "runtime-cpu",
        seconds=IMAGE_SECONDS,
        say=say,
    )
    by_name = image_references(out)
    return Images(operator=by_name["operator"], runtime_cpu=by_name["runtime-cpu"])


def image_references(out: str) -> dict[str, str]:
    """References by image, of what `images/build --push` printed."""
    found = (_REFERENCE.match(line.strip()) for line in out.splitlines())
    return {match["name"]: match["reference"] for match in found if match}


def installed_images(kube: Kube) -> Images | None:
    """The images that the installed release uses, or None where there is no release."""
    found = kube.get(DEPLOYMENT, OPERATOR, NAMESPACE)
    if found is None:
        return None
    container = found["spec"]["template"]["spec"]["containers"][0]
    variables = {each["name"]: each.get("value", "") for each in container["env"]}
    return Images(operator=container["image"], runtime_cpu=variables["KINDLING_CPU_IMAGE"])


def chart_values(images: Images) -> dict[str, object]:
    """Values that make the chart use these images."""
    registry = images.operator.partition("/")[0]
    return {
        "images": {
            "registry": registry,
            "operator": {"digest": images.operator.partition("@")[2]},
            "runtimeCpu": {"digest": images.runtime_cpu.partition("@")[2]},
        },
    }


def settings(values: Mapping[str, object]) -> list[str]:
    """Values as arguments of helm."""
    return [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]


def install(
    kube: Kube,
    images: Images,
    *,
    values: Mapping[str, object] | None = None,
    helm: str = "helm",
    seconds: float = 180,
) -> None:
    """`helm upgrade --install` with `values` over the images', and wait for the operator."""
    merged = {**chart_values(images), **(values or {})}
    run(
        helm,
        "upgrade",
        "--install",
        RELEASE,
        CHART,
        f"--namespace={NAMESPACE}",
        "--create-namespace",
        *settings(merged),
        seconds=seconds,
        env=kube.environment,
    )
    wait_for_operator(kube, seconds=seconds)


def wait_for_operator(kube: Kube, *, seconds: float = 120) -> None:
    """Wait until every operator pod of the newest template is ready."""

    def ready() -> bool:
        found = kube.get(DEPLOYMENT, OPERATOR, NAMESPACE)
        if found is None:
            return False
        status, wanted = found.get("status", {}), found["spec"]["replicas"]
        return bool(
            status.get("observedGeneration", 0) >= found["metadata"]["generation"]
            and status.get("updatedReplicas", 0) == wanted
            and status.get("replicas", 0) == wanted
            and status.get("readyReplicas", 0) == wanted
        )

    until(
        "the operator to be ready",
        ready,
        seconds=seconds,
        say=kube.say,
        show=lambda: kube.kubectl("get", "pods", "-n", NAMESPACE, "-o", "wide"),
    )
