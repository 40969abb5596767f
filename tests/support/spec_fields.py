"""Every field of the spec by its path, with a value that differs from the default.

The walk comes from the types, the values from here: a new field without a value fails a test, and
so does one that neither changes what is made nor is refused by name.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import inspect as mi

from kindling_operator.model.api import InferenceModelSpec

_WHOLE: Final = "spec.model.custom"
"""An architecture describes the model and asks for nothing; it has checks of its own."""


def field_paths() -> tuple[str, ...]:
    """The path of every field that holds a value: ``spec.serving.adapters[].uri``."""
    return tuple(sorted(set(_paths(mi.type_info(InferenceModelSpec), "spec"))))


def _paths(kind: mi.Type, path: str) -> Iterator[str]:
    match kind:
        case mi.Metadata():
            yield from _paths(kind.type, path)
        case mi.UnionType():
            for option in kind.types:
                if not isinstance(option, mi.NoneType):
                    yield from _paths(option, path)
        case mi.StructType() if kind.fields and path != _WHOLE:
            for part in kind.fields:
                yield from _paths(part.type, f"{path}.{part.encode_name}")
        case mi.VarTupleType():
            yield from _paths(kind.item_type, f"{path}[]")
        case _:
            yield path.removesuffix("[]")


def _store(**fields: Any) -> dict[str, Any]:
    identity = {"aws": {"roleArn": "arn:aws:iam::123456789012:role/kv"}}
    return {"cache": {"objectStore": {"uri": "s3://kv/x", "identity": identity, **fields}}}


def _identified(uri: str, identity: Mapping[str, Any]) -> dict[str, Any]:
    return {"cache": {"objectStore": {"uri": uri, "identity": identity}}}


def _parallel(**sizes: Any) -> dict[str, Any]:
    return {"placement": {"parallelism": sizes}}


def _sparse(**sizes: Any) -> dict[str, Any]:
    """A mixture of experts with pins."""
    experts = {"count": 8, "perToken": 2, "layers": 4, "intermediateSize": 64}
    return {"model": {"custom": {"experts": experts}}, **_parallel(**sizes)}


def _drafting(**speculation: Any) -> dict[str, Any]:
    """A model with two prediction layers."""
    draft = {"depths": 2, "attentionGroup": "full_attention"}
    return {"model": {"custom": {"draft": draft}}, "serving": {"speculation": speculation}}


def _weights(**fields: Any) -> dict[str, Any]:
    return {"model": {"weights": fields}}


def _hub(**fields: Any) -> dict[str, Any]:
    return _weights(uri="hf://org/tiny", **fields)


def _token(name: str, key: str) -> dict[str, Any]:
    return _hub(tokenSecretRef={"name": name, "key": key})


def _tolerated(**toleration: Any) -> dict[str, Any]:
    return {"placement": {"tolerations": [toleration]}}


def _adapted(*adapters: Mapping[str, str]) -> dict[str, Any]:
    """Only Inkling is known to serve adapters."""
    inkling = {"custom": {"architecture": "InklingForConditionalGeneration"}}
    return {"model": inkling, "serving": {"adapters": list(adapters)}}


_DISAGGREGATED: Final = {"serving": {"disaggregation": {"prefillReplicas": 1, "decodeReplicas": 1}}}
_AZURE: Final = {
    "azure": {
        "clientId": "11111111-2222-3333-4444-555555555555",
        "tenantId": "11111111-2222-3333-4444-555555555555",
    }
}

REFUSED: Final[Mapping[str, dict[str, Any]]] = {
    "spec.cache.objectStore.admission": _store(admission="Always"),
    "spec.cache.objectStore.caBundle.key": _store(caBundle={"name": "ca", "key": "pem"}),
    "spec.cache.objectStore.caBundle.name": _store(caBundle={"name": "ca"}),
    "spec.cache.objectStore.endpoint": _store(endpoint="https://s3.example.com"),
    "spec.cache.objectStore.identity.aws.podIdentity": _identified(
        "s3://kv", {"aws": {"podIdentity": {}}}
    ),
    "spec.cache.objectStore.identity.aws.roleArn": _store(),
    "spec.cache.objectStore.identity.azure.clientId": _identified("az://kv", _AZURE),
    "spec.cache.objectStore.identity.azure.tenantId": _identified("az://kv", _AZURE),
    "spec.cache.objectStore.identity.development": _identified("s3://kv", {"development": {}}),
    "spec.cache.objectStore.identity.gcp.direct": _identified("gs://kv", {"gcp": {"direct": {}}}),
    "spec.cache.objectStore.identity.gcp.serviceAccount": _identified(
        "gs://kv", {"gcp": {"serviceAccount": "kindling@project.iam.gserviceaccount.com"}}
    ),
    "spec.cache.objectStore.maxAge": _store(maxAge="168h"),
    "spec.cache.objectStore.maxBytes": _store(maxBytes="20Ti"),
    "spec.cache.objectStore.region": _store(region="eu-west-1"),
    "spec.cache.objectStore.sharing": _store(sharing="Bucket"),
    "spec.cache.objectStore.tokenEndpoint": _store(tokenEndpoint="https://sts.example.com"),
    "spec.cache.objectStore.uri": _store(),
    "spec.endpoint.apiKeysSecretRef.name": {"endpoint": {"apiKeysSecretRef": {"name": "keys"}}},
    "spec.endpoint.gateway": {"endpoint": {"gateway": "InferencePool"}},
    "spec.scaling.maxReplicas": {"scaling": {"maxReplicas": 2}},
    "spec.scaling.minReplicas": {"scaling": {"maxReplicas": 2, "minReplicas": 0}},
    "spec.scaling.objective.tpot": {"scaling": {"maxReplicas": 2, "objective": {"tpot": "60ms"}}},
    "spec.scaling.objective.ttft": {"scaling": {"maxReplicas": 2, "objective": {"ttft": "2s"}}},
    "spec.scaling.prefillTokensPerSecond": {
        "scaling": {"maxReplicas": 2, "prefillTokensPerSecond": 21_000}
    },
    "spec.scaling.scaleToZeroAfter": {"scaling": {"maxReplicas": 2, "scaleToZeroAfter": "15m"}},
    "spec.serving.disaggregation.decodeReplicas": _DISAGGREGATED,
    "spec.serving.disaggregation.prefillReplicas": _DISAGGREGATED,
}
"""Fields whose behaviour does not exist yet: a spec with the patch is refused by name."""

CHANGES: Final[Mapping[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "spec.cache.encoderMemory": ({}, {"cache": {"encoderMemory": "8Gi"}}),
    "spec.cache.hostMemory": ({}, {"cache": {"hostMemory": "200Gi"}}),
    "spec.endpoint.port": ({}, {"endpoint": {"port": 9000}}),
    "spec.model.checkpoint": ({}, {"model": {"checkpoint": "NVFP4"}}),
    "spec.model.custom": ({}, {"model": {"custom": {"contextLength": 2048}}}),
    "spec.model.weights.cacheClaim": ({}, _weights(cacheClaim="weights")),
    "spec.model.weights.cacheMaxBytes": (
        _hub(cacheClaim="weights"),
        _hub(cacheClaim="weights", cacheMaxBytes="2Ti"),
    ),
    "spec.model.weights.revision": (_hub(), _hub(revision="one")),
    "spec.model.weights.tokenSecretRef.key": (_token("hf", "token"), _token("hf", "other")),
    "spec.model.weights.tokenSecretRef.name": (_token("hf", "token"), _token("other", "token")),
    "spec.model.weights.uri": ({}, _weights(uri="pvc://weights/other")),
    "spec.placement.gpu.minMemory": ({}, {"placement": {"gpu": {"minMemory": "100Gi"}}}),
    "spec.placement.gpu.products": ({}, {"placement": {"gpu": {"products": ["NVIDIA-H200"]}}}),
    "spec.placement.maxGpusPerReplica": ({}, {"placement": {"maxGpusPerReplica": 1}}),
    "spec.placement.nodeSelector": ({}, {"placement": {"nodeSelector": {"pool": "gpu"}}}),
    "spec.placement.parallelism.data": (_sparse(), _sparse(data=2)),
    "spec.placement.parallelism.expert": (_sparse(tensor=2), _sparse(tensor=2, expert=True)),
    "spec.placement.parallelism.pipeline": ({}, _parallel(pipeline=2)),
    "spec.placement.parallelism.tensor": ({}, _parallel(tensor=2)),
    "spec.placement.priorityClassName": ({}, {"placement": {"priorityClassName": "serving"}}),
    "spec.placement.tolerations[].effect": (
        _tolerated(key="a"),
        _tolerated(key="a", effect="NoSchedule"),
    ),
    "spec.placement.tolerations[].key": (
        _tolerated(operator="Exists"),
        _tolerated(operator="Exists", key="a"),
    ),
    "spec.placement.tolerations[].operator": (
        _tolerated(key="a"),
        _tolerated(key="a", operator="Exists"),
    ),
    "spec.placement.tolerations[].tolerationSeconds": (
        _tolerated(key="a", effect="NoExecute"),
        _tolerated(key="a", effect="NoExecute", tolerationSeconds=5),
    ),
    "spec.placement.tolerations[].value": (_tolerated(key="a"), _tolerated(key="a", value="b")),
    "spec.replicas": ({}, {"replicas": 2}),
    "spec.rollout.drainDeadline": ({}, {"rollout": {"drainDeadline": "5m"}}),
    "spec.rollout.progressDeadline": ({}, {"rollout": {"progressDeadline": "5m"}}),
    "spec.runtime.image": ({}, {"runtime": {"image": "registry.test/own:v1"}}),
    "spec.runtime.imagePullSecrets[].name": (
        {},
        {"runtime": {"imagePullSecrets": [{"name": "registry"}]}},
    ),
    "spec.runtime.resources.cpu": ({}, {"runtime": {"resources": {"cpu": 2}}}),
    "spec.runtime.resources.memory": ({}, {"runtime": {"resources": {"memory": "8Gi"}}}),
    "spec.runtime.serviceAccountName": ({}, {"runtime": {"serviceAccountName": "own"}}),
    "spec.serving.adapters[].name": (
        _adapted({"name": "a", "uri": "pvc://weights/a"}),
        _adapted({"name": "b", "uri": "pvc://weights/a"}),
    ),
    "spec.serving.adapters[].uri": (
        _adapted({"name": "a", "uri": "pvc://weights/a"}),
        _adapted({"name": "a", "uri": "file:///adapters/a"}),
    ),
    "spec.serving.concurrency": ({}, {"serving": {"concurrency": 300}}),
    "spec.serving.contextLength": ({}, {"serving": {"contextLength": 1024}}),
    "spec.serving.extraArgs": ({}, {"serving": {"extraArgs": ["--seed=7"]}}),
    "spec.serving.frontend": (
        {"serving": {"modalities": ["Text"]}},
        {"serving": {"modalities": ["Text"], "frontend": "Rust"}},
    ),
    "spec.serving.mediaDomains": ({}, {"serving": {"mediaDomains": ["assets.example.com"]}}),
    "spec.serving.modalities": ({}, {"serving": {"modalities": ["Text"]}}),
    "spec.serving.speculation.mode": (
        _drafting(mode="Disabled"),
        _drafting(mode="Fixed", tokens=1),
    ),
    "spec.serving.speculation.tokens": (
        _drafting(mode="Fixed", tokens=1),
        _drafting(mode="Fixed", tokens=2),
    ),
    "spec.serving.servedName": ({}, {"serving": {"servedName": "other"}}),
}
"""Fields that change what is made: between the first patch and the second, manifests differ."""

ELSEWHERE: Final[Mapping[str, str]] = {
    "spec.model.name": "which model is planned; immutable",
    "spec.rollout.onFailure": "read when a revision fails (test_rollout)",
}
"""Fields that are acted on without a difference in the manifests of a first plan, and how."""
