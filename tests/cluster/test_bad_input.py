"""What a person reads after a mistake, and that correcting it is all that is left to do."""

from pathlib import Path

import pytest
from tests.support import manifests
from tests.support.fixtures import GONE_SECONDS, READY_SECONDS
from tests.support.install import Images
from tests.support.kube import MODEL, POD, VOLUME, Kube, Object, conditions
from tests.support.onenode import Cluster
from tests.support.waiting import until

from kindling_operator.model import names

pytestmark = pytest.mark.cluster

VERDICT_SECONDS = 60
"""How long a mistake may take to be named in status; the kubelet's own back-offs are included."""

AWS = {"roleArn": "arn:aws:iam::123456789012:role/kv"}
STORE = {
    "uri": "s3://kv-cache/tiny",
    "region": "eu-west-1",
    "identity": {"aws": AWS, "gcp": {"direct": {}}},
}
NO_HEAD_SIZE = {"name": "full", "kind": "Full", "layers": 4, "kvHeads": 2}

REFUSED_AT_ADMISSION = {
    "unknown model": (
        {"model": {"name": "llama", "custom": None}},
        'spec.model.name: Unsupported value: "llama": supported values:'
        ' "inkling", "flint", "custom"',
    ),
    "unknown field": (
        {"serving": {"contxtLength": 2048}},
        'unknown field "spec.serving.contxtLength"',
    ),
    "two identities": (
        {"cache": {"objectStore": STORE}},
        "spec.cache.objectStore.identity: Invalid value: 2 identities are given: give exactly one"
        " of `aws`, `gcp`, `azure` and `development`",
    ),
    "heads that are not divisible": (
        {"model": {"custom": {"attentionHeads": 7}}},
        "spec.model.custom.attentionHeads: Invalid value: `attentionHeads` 7 is not divisible by"
        " `kvHeads` 2 of group full: copy both from config.json",
    ),
    "layers that do not add up": (
        {"model": {"custom": {"layers": 5}}},
        "spec.model.custom.layers: Invalid value: the Full and Sliding groups have 4 layers"
        " together and the model has `layers` 5: make them equal",
    ),
    "a missing tensor shape": (
        {"model": {"custom": {"attention": [NO_HEAD_SIZE]}}},
        "spec.model.custom.attention[0].headSize: Required value",
    ),
    "no dense layer's width": (
        {"model": {"custom": {"intermediateSize": None}}},
        "spec.model.custom: Invalid value: give `intermediateSize`, the width of the dense MLP,"
        " or `experts` in all 4 layers",
    ),
    "custom without an architecture": (
        {"model": {"custom": None}},
        "spec.model: Invalid value: `name: custom` needs the architecture in `custom`: copy it"
        " from config.json",
    ),
    "weights without a scheme": (
        {"model": {"weights": {"uri": "weights/tiny"}}},
        'spec.model.weights.uri: Invalid value: "weights/tiny": start with hf://, s3://, gs://,'
        " az:// or pvc://, or with file:/// and a path inside the image",
    ),
}


@pytest.mark.parametrize(
    ("spec", "message"), REFUSED_AT_ADMISSION.values(), ids=REFUSED_AT_ADMISSION
)
def test_the_api_server_refuses(
    spec: Object, message: str, namespace: str, kube: Kube, operator: Images
) -> None:
    assert message in kube.refused(manifests.tiny("wrong", namespace, **spec))
    assert kube.get(MODEL, "wrong", namespace) is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a" * 51, "use at most 50 characters"),
        ("7b", "begin with a letter"),
        ("a.b", "begin with a letter"),
    ],
    ids=["too long", "a digit first", "a dot"],
)
def test_a_name_that_no_service_can_have(
    name: str, message: str, namespace: str, kube: Kube, operator: Images
) -> None:
    error = kube.refused(manifests.tiny(name, namespace))
    assert message in error
    assert "Service" in error
    assert kube.get(MODEL, name, namespace) is None


def test_the_longest_name_is_accepted(namespace: str, kube: Kube, operator: Images) -> None:
    name = "a" * names.MAX_NAME_LENGTH
    kube.apply(manifests.tiny(name, namespace, uri="pvc://nowhere/tiny"))
    kube.wait_condition(name, namespace, type="Accepted", seconds=VERDICT_SECONDS)
    kube.delete(MODEL, name, namespace)


def told(model: Object, condition: str) -> str:
    """The condition's message; fails if it is no single sentence."""
    message = conditions(model)[condition].message
    assert message.endswith("."), message
    assert "\n" not in message
    return message


def test_a_feature_that_is_not_there_yet_is_named(
    namespace: str, kube: Kube, operator: Images
) -> None:
    keys = {"apiKeysSecretRef": {"name": "keys"}}
    kube.apply(manifests.tiny("early", namespace, endpoint=keys))
    found = kube.wait_condition(
        "early", namespace, type="Accepted", status="False", seconds=VERDICT_SECONDS
    )
    assert conditions(found)["Accepted"].reason == "NotYetSupported"
    assert "spec.endpoint.apiKeysSecretRef" in told(found, "Accepted")
    assert conditions(found)["Ready"].reason == "NotYetSupported"
    assert "endpoint" not in found["status"]
    assert kube.children("early", namespace) == []
    kube.delete(MODEL, "early", namespace)


def test_a_context_beyond_the_model_is_refused_with_the_number(
    namespace: str, kube: Kube, operator: Images
) -> None:
    kube.apply(manifests.tiny("long", namespace, serving={"contextLength": 8192}))
    found = kube.wait_condition(
        "long", namespace, type="Accepted", status="False", seconds=VERDICT_SECONDS
    )
    assert conditions(found)["Accepted"].reason == "ContextTooLong"
    message = told(found, "Accepted")
    assert "8192" in message
    assert "4096" in message
    assert kube.children("long", namespace) == []
    kube.delete(MODEL, "long", namespace)


def test_a_taken_name_is_refused_and_nothing_foreign_is_touched(
    namespace: str, kube: Kube, operator: Images
) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "taken", "namespace": namespace},
        "spec": {"selector": {"app": "somebody-else"}, "ports": [{"port": 80}]},
    }
    kube.apply(service)
    before = kube.have(names.SERVICE, "taken", namespace)
    kube.apply(manifests.tiny("taken", namespace, replicas=0))
    found = kube.wait_condition(
        "taken", namespace, type="Accepted", status="False", seconds=VERDICT_SECONDS
    )
    assert conditions(found)["Accepted"].reason == "NameConflict"
    assert f"Service {namespace}/taken" in told(found, "Accepted")
    assert kube.children("taken", namespace) == []
    after = kube.have(names.SERVICE, "taken", namespace)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    kube.delete(names.SERVICE, "taken", namespace)
    kube.wait_condition("taken", namespace, type="Accepted", seconds=VERDICT_SECONDS)
    kube.delete(MODEL, "taken", namespace)
    kube.wait_gone(names.SERVICE, "taken", namespace, seconds=GONE_SECONDS)


def live_revisions(kube: Kube, namespace: str, name: str) -> set[str]:
    """Revisions that have a Deployment or a pod that is not on its way out."""
    selector = f"{names.LABEL_MODEL}={name}"
    found = [
        *kube.find(names.DEPLOYMENT, namespace, selector=selector),
        *kube.find(POD, namespace, selector=selector),
    ]
    return {
        each["metadata"]["labels"][names.LABEL_REVISION]
        for each in found
        if "deletionTimestamp" not in each["metadata"]
    }


class TestOneMistakeAfterTheOther:
    """One object through every mistake that needs the node to notice, then corrected to Ready.

    In order, each test from where the one before left it: a single engine is started, at the end.
    """

    name = "clumsy"

    def named(self, kube: Kube, namespace: str, condition: str, reason: str) -> str:
        """Wait until the mistake is named, by Ready too; the sentence."""
        found = kube.wait_condition(
            self.name, namespace, type=condition, status="False", reason=reason, seconds=120
        )
        assert conditions(found)["Ready"].reason == reason
        return told(found, condition)

    def test_a_missing_claim_is_named(self, namespace: str, kube: Kube, operator: Images) -> None:
        kube.apply(manifests.tiny(self.name, namespace, uri="pvc://later/bare"))
        message = self.named(kube, namespace, "Scheduled", "ClaimNotBound")
        assert message == (
            f"PersistentVolumeClaim {namespace}/later (pvc://later/bare) does not exist: create it,"
            " or correct spec.model.weights.uri."
        )
        assert kube.children(self.name, namespace) == []

    def test_weights_without_config_are_named_once_the_claim_is_there(
        self, namespace: str, kube: Kube, operator: Images, cluster: Cluster, weights: Path
    ) -> None:
        volume = f"{namespace}-later"
        kube.delete(VOLUME, volume)
        kube.wait_gone(VOLUME, volume, seconds=GONE_SECONDS)
        cluster.volume(volume, weights)
        kube.apply(manifests.claim("later", namespace, volume=volume))
        message = self.named(kube, namespace, "Available", "WeightsIncomplete")
        assert "has no config.json; make pvc://later/bare name the folder" in message

    def test_a_missing_image_is_named(self, namespace: str, kube: Kube, operator: Images) -> None:
        absent = f"{operator.runtime_cpu.partition('@')[0]}:absent"
        kube.apply(
            manifests.tiny(self.name, namespace, uri="pvc://later/tiny", runtime={"image": absent})
        )
        message = self.named(kube, namespace, "Available", "ImageNotPullable")
        assert f"The node cannot pull {absent}" in message
        assert "correct spec.runtime.image" in message
        assert len(live_revisions(kube, namespace, self.name)) == 1, "the wrong revision is left"

    def test_the_corrected_object_serves(
        self, namespace: str, kube: Kube, operator: Images
    ) -> None:
        kube.apply(manifests.tiny(self.name, namespace, uri="pvc://later/tiny"))
        kube.wait_condition(self.name, namespace, type="Ready", seconds=READY_SECONDS)
        until(
            "the wrong revisions to be gone",
            lambda: len(live_revisions(kube, namespace, self.name)) == 1,
            seconds=GONE_SECONDS,
            say=kube.say,
        )
        kube.delete(MODEL, self.name, namespace)
