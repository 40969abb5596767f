"""One spec for every rule of the API that a person can break."""

from typing import Final

from tests.support.refusals import TINY, Refusal, flint, store
from tests.support.refusals_of_architectures import ARCHITECTURE

_OBJECT_NAME: Final = "name an object of this namespace: lower-case letters, digits, '-' and '.'"
_DURATION: Final = (
    "write a duration in hours, minutes and seconds, such as 1h30m or 45s, of at least 1s and at"
    " most 8760h"
)
_LATENCY: Final = (
    "write a duration in seconds and milliseconds, such as 2s or 60ms, of at least 1ms and at most"
    " 8760h"
)
_POSITIVE: Final = "write an amount greater than zero with its unit, such as 80Gi, of at most 4Pi"
_POSITIVE_OR_ZERO: Final = "write an amount with its unit, such as 200Gi, of at most 4Pi, or 0"
_ARGUMENT: Final = (
    "write each vLLM argument as one item, --name or --name=value, without control characters"
)
_LABEL_VALUE: Final = "write a label value: letters, digits, '-', '_' and '.'"
_SERVED_NAME: Final = "use letters, digits and -._/: only, and start with a letter or digit"
_WEIGHTS: Final = (
    "start with hf://, s3://, gs://, az:// or pvc://, or with file:/// and a path inside the image"
)

_CLAIM: Final = (
    "name a claim of this namespace after pvc://: at most 253 lower-case letters, digits, '-' and"
    " '.'"
)
_IMAGE: Final = (
    "write an image reference in lower case, such as registry.example.com/team/image:tag or"
    " registry.example.com/team/image@sha256:DIGEST"
)


MODEL: Final = {
    "custom without an architecture": Refusal(
        {"model": {"name": "custom"}},
        "spec.model",
        "`name: custom` needs the architecture in `custom`: copy it from config.json",
    ),
    "an architecture for a model of the catalog": Refusal(
        {"model": {"name": "flint", "custom": TINY}},
        "spec.model",
        "`name: flint` takes its architecture from the catalog: remove `custom`, or set"
        " `name: custom`",
    ),
    "weights from a scheme that nobody reads": Refusal(
        flint(model={"weights": {"uri": "http://host/flint"}}),
        "spec.model.weights.uri",
        _WEIGHTS,
        "http://host/flint",
    ),
    "weights with a control character in their path": Refusal(
        flint(model={"weights": {"uri": "pvc://weights/a\fb"}}),
        "spec.model.weights.uri",
        _WEIGHTS,
        "pvc://weights/a\fb",
    ),
    "weights in a claim that is no name": Refusal(
        flint(model={"weights": {"uri": "pvc://Weights_X/tiny"}}),
        "spec.model.weights.uri",
        _CLAIM,
        "pvc://Weights_X/tiny",
    ),
    "weights outside the image": Refusal(
        flint(model={"weights": {"uri": "file:///models/../etc"}}),
        "spec.model.weights.uri",
        "write the path without `..`",
        "file:///models/../etc",
    ),
    "a relative path in the image": Refusal(
        flint(model={"weights": {"uri": "file://models"}}),
        "spec.model.weights.uri",
        _WEIGHTS,
        "file://models",
    ),
    "a cache claim that is no name": Refusal(
        flint(model={"weights": {"cacheClaim": "My_Claim"}}),
        "spec.model.weights.cacheClaim",
        _OBJECT_NAME,
        "My_Claim",
    ),
    "a cache of nothing": Refusal(
        flint(model={"weights": {"cacheClaim": "weights", "cacheMaxBytes": "0"}}),
        "spec.model.weights.cacheMaxBytes",
        _POSITIVE,
        "0",
    ),
    "a Secret key that is no key": Refusal(
        flint(model={"weights": {"tokenSecretRef": {"name": "hf", "key": "a/b"}}}),
        "spec.model.weights.tokenSecretRef.key",
        "name one key of the object: letters, digits, '-', '_' and '.'",
        "a/b",
    ),
}

SERVING: Final = {
    "drafted tokens without a fixed mode": Refusal(
        flint(serving={"speculation": {"tokens": 4}}),
        "spec.serving.speculation",
        "`tokens: 4` is for `mode: Fixed` and the mode is Auto: remove it, or set `mode: Fixed`",
    ),
    "a fixed mode without drafted tokens": Refusal(
        flint(serving={"speculation": {"mode": "Fixed"}}),
        "spec.serving.speculation",
        "`mode: Fixed` needs `tokens`, the number of drafted tokens",
    ),
    "a served name with a blank": Refusal(
        flint(serving={"servedName": "my model"}),
        "spec.serving.servedName",
        _SERVED_NAME,
        "my model",
    ),
    "a media domain with a scheme": Refusal(
        flint(serving={"mediaDomains": ["https://assets.example.com"]}),
        "spec.serving.mediaDomains[0]",
        "write a bare host name without scheme, port or path, such as assets.example.com",
        "https://assets.example.com",
    ),
    "an argument and its value as two items": Refusal(
        flint(serving={"extraArgs": ["--seed", "7"]}),
        "spec.serving.extraArgs[1]",
        _ARGUMENT,
        "7",
    ),
    "an argument with a control character": Refusal(
        flint(serving={"extraArgs": ["--seed=7\f"]}),
        "spec.serving.extraArgs[0]",
        _ARGUMENT,
        "--seed=7\f",
    ),
    "an adapter from nowhere": Refusal(
        flint(serving={"adapters": [{"name": "support", "uri": "support"}]}),
        "spec.serving.adapters[0].uri",
        _WEIGHTS,
        "support",
    ),
    "fewer replicas at most than at least": Refusal(
        flint(scaling={"minReplicas": 4, "maxReplicas": 2}),
        "spec.scaling",
        "`minReplicas` 4 must not exceed `maxReplicas` 2",
    ),
    "a latency without a unit": Refusal(
        flint(scaling={"maxReplicas": 2, "objective": {"ttft": "2"}}),
        "spec.scaling.objective.ttft",
        _LATENCY,
        "2",
    ),
    "a latency of nothing": Refusal(
        flint(scaling={"maxReplicas": 2, "objective": {"tpot": "0.0ms"}}),
        "spec.scaling.objective.tpot",
        _LATENCY,
        "0.0ms",
    ),
    "a deadline of nothing": Refusal(
        flint(rollout={"progressDeadline": "0s"}),
        "spec.rollout.progressDeadline",
        _DURATION,
        "0s",
    ),
    "a deadline of less than a second": Refusal(
        flint(rollout={"drainDeadline": "0h999ms"}),
        "spec.rollout.drainDeadline",
        _DURATION,
        "0h999ms",
    ),
    "a deadline in words": Refusal(
        flint(rollout={"progressDeadline": "soon"}),
        "spec.rollout.progressDeadline",
        _DURATION,
        "soon",
    ),
    "a deadline of more than a year": Refusal(
        flint(rollout={"progressDeadline": "8760h1ms"}),
        "spec.rollout.progressDeadline",
        _DURATION,
        "8760h1ms",
    ),
    "a deadline that no clock can count": Refusal(
        flint(rollout={"drainDeadline": "99999999h"}),
        "spec.rollout.drainDeadline",
        _DURATION,
        "99999999h",
    ),
}

PLACEMENT: Final = {
    "memory in a unit that Kubernetes has not": Refusal(
        flint(placement={"gpu": {"minMemory": "80GB"}}),
        "spec.placement.gpu.minMemory",
        _POSITIVE,
        "80GB",
    ),
    "no memory": Refusal(
        flint(placement={"gpu": {"minMemory": 0}}), "spec.placement.gpu.minMemory", _POSITIVE, 0
    ),
    "no CPU, written at length": Refusal(
        flint(runtime={"resources": {"cpu": "0.00m"}}),
        "spec.runtime.resources.cpu",
        _POSITIVE,
        "0.00m",
    ),
    "memory beyond all machines": Refusal(
        flint(runtime={"resources": {"memory": "999999E"}}),
        "spec.runtime.resources.memory",
        _POSITIVE,
        "999999E",
    ),
    "memory beyond all machines, as a number": Refusal(
        flint(runtime={"resources": {"memory": 2**52 + 1}}),
        "spec.runtime.resources.memory",
        _POSITIVE,
        2**52 + 1,
    ),
    "a host tier beyond all machines": Refusal(
        flint(cache={"hostMemory": "4097Ti"}),
        "spec.cache.hostMemory",
        _POSITIVE_OR_ZERO,
        "4097Ti",
    ),
    "a product with a blank": Refusal(
        flint(placement={"gpu": {"products": ["NVIDIA H200"]}}),
        "spec.placement.gpu.products[0]",
        _LABEL_VALUE,
        "NVIDIA H200",
    ),
    "a label key with a blank": Refusal(
        flint(placement={"nodeSelector": {"node pool": "gpu"}}),
        "spec.placement.nodeSelector",
        "node pool is no label key, such as nvidia.com/gpu.product or pool: correct it",
    ),
    "a label value with a blank": Refusal(
        flint(placement={"nodeSelector": {"pool": "gpu west"}}),
        "spec.placement.nodeSelector[pool]",
        _LABEL_VALUE,
        "gpu west",
    ),
    "a toleration of a key with a blank": Refusal(
        flint(placement={"tolerations": [{"key": "node pool"}]}),
        "spec.placement.tolerations[0].key",
        "write a label key, such as nvidia.com/gpu.product or pool",
        "node pool",
    ),
    "a toleration of nothing": Refusal(
        flint(placement={"tolerations": [{"operator": "Equal"}]}),
        "spec.placement.tolerations[0]",
        "give `key`, or `operator: Exists` to tolerate every taint",
    ),
    "a toleration that compares nothing": Refusal(
        flint(placement={"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}),
        "spec.placement.tolerations[0]",
        "`operator: Exists` looks at no value: remove `value` b",
    ),
    "an image that is no reference": Refusal(
        flint(runtime={"image": "UPPER CASE/::bad"}),
        "spec.runtime.image",
        _IMAGE,
        "UPPER CASE/::bad",
    ),
    "an account that is no name": Refusal(
        flint(runtime={"serviceAccountName": "serving..pods"}),
        "spec.runtime.serviceAccountName",
        _OBJECT_NAME,
        "serving..pods",
    ),
    "a toleration that lasts without need": Refusal(
        flint(placement={"tolerations": [{"key": "a", "tolerationSeconds": 30}]}),
        "spec.placement.tolerations[0]",
        "`tolerationSeconds` is for `effect: NoExecute` only: remove it",
    ),
}

CACHE: Final = {
    "negative host memory": Refusal(
        flint(cache={"hostMemory": -1}),
        "spec.cache.hostMemory",
        _POSITIVE_OR_ZERO,
        -1,
    ),
    "two identities": Refusal(
        store(identity={"aws": {"podIdentity": {}}, "gcp": {"direct": {}}}),
        "spec.cache.objectStore.identity",
        "2 identities are given: give exactly one of `aws`, `gcp`, `azure` and `development`",
    ),
    "no identity": Refusal(
        store(identity={}),
        "spec.cache.objectStore.identity",
        "0 identities are given: give exactly one of `aws`, `gcp`, `azure` and `development`",
    ),
    "an identity of another cloud": Refusal(
        store(identity={"gcp": {"direct": {}}}),
        "spec.cache.objectStore.identity",
        "the identity must belong to the store s3://kv/flint: `aws` for s3://, `gcp` for gs://,"
        " `azure` for az://",
    ),
    "two identities of AWS": Refusal(
        store(
            identity={"aws": {"podIdentity": {}, "roleArn": "arn:aws:iam::123456789012:role/kv"}}
        ),
        "spec.cache.objectStore.identity.aws",
        "give either `roleArn` (IRSA) or `podIdentity: {}` (EKS Pod Identity)",
    ),
    "no identity of Google Cloud": Refusal(
        store("gs://kv", {"gcp": {}}),
        "spec.cache.objectStore.identity.gcp",
        "give either `serviceAccount` (impersonation) or `direct: {}`",
    ),
    "a role that is no ARN": Refusal(
        store(identity={"aws": {"roleArn": "role/kv"}}),
        "spec.cache.objectStore.identity.aws.roleArn",
        "write the role's ARN, such as arn:aws:iam::123456789012:role/kv-cache",
        "role/kv",
    ),
    "a role with a colon too many": Refusal(
        store(identity={"aws": {"roleArn": ": arn:aws:iam::123456789012:role/kv"}}),
        "spec.cache.objectStore.identity.aws.roleArn",
        "write the role's ARN, such as arn:aws:iam::123456789012:role/kv-cache",
        ": arn:aws:iam::123456789012:role/kv",
    ),
    "an e-mail of a person": Refusal(
        store("gs://kv", {"gcp": {"serviceAccount": "kv@example.com"}}),
        "spec.cache.objectStore.identity.gcp.serviceAccount",
        "write the service account's e-mail, such as kv@project.iam.gserviceaccount.com",
        "kv@example.com",
    ),
    "a client id that is no UUID": Refusal(
        store(
            "az://kv",
            {"azure": {"clientId": "kv", "tenantId": "11111111-2222-3333-4444-555555555555"}},
        ),
        "spec.cache.objectStore.identity.azure.clientId",
        "write a UUID, such as 11111111-2222-3333-4444-555555555555",
        "kv",
    ),
    "a store that is no bucket": Refusal(
        store("http://kv"),
        "spec.cache.objectStore.uri",
        "write a bucket with an optional prefix, such as s3://kv-cache/inkling, gs://… or az://…",
        "http://kv",
    ),
    "an endpoint without a scheme": Refusal(
        store(endpoint="minio:9000"),
        "spec.cache.objectStore.endpoint",
        "write a URL with https:// or http://",
        "minio:9000",
    ),
    "no space": Refusal(store(maxBytes=0), "spec.cache.objectStore.maxBytes", _POSITIVE, 0),
    "an age in days": Refusal(store(maxAge="7d"), "spec.cache.objectStore.maxAge", _DURATION, "7d"),
}

REFUSALS: Final = {**MODEL, **ARCHITECTURE, **SERVING, **PLACEMENT, **CACHE}
