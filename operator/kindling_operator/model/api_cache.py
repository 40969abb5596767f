"""``spec.cache``: the KV cache tiers below GPU memory and who may touch them."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from kindling_operator.model.fields import (
    Duration,
    ObjectName,
    Quantity,
    QuantityOrZero,
    Rule,
    SecretKey,
    Spec,
    doc,
    matches,
    text,
)


class Sharing(StrEnum):
    """Who may reuse cached blocks."""

    NAMESPACE = "Namespace"
    BUCKET = "Bucket"


class Admission(StrEnum):
    """Which blocks are worth a write to the object store."""

    ALWAYS = "Always"
    SECOND_USE = "SecondUse"


RoleArn = Annotated[
    str,
    text(
        256,
        matches(
            "^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+$",
            "write the role's ARN, such as arn:aws:iam::123456789012:role/kv-cache",
        ),
    ),
]
ServiceAccountEmail = Annotated[
    str,
    text(
        128,
        matches(
            "^[a-z][a-z0-9-]{4,28}[a-z0-9]@[a-z][a-z0-9.-]*[.]iam[.]gserviceaccount[.]com$",
            "write the service account's e-mail, such as kv@project.iam.gserviceaccount.com",
        ),
    ),
]
Uuid = Annotated[
    str,
    text(
        36,
        matches(
            "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
            "write a UUID, such as 11111111-2222-3333-4444-555555555555",
        ),
    ),
]
StoreUri = Annotated[
    str,
    text(
        512,
        matches(
            "^(s3|gs|az)://[a-z0-9][a-z0-9._-]*(/[A-Za-z0-9._/-]*)?$",
            "write a bucket with an optional prefix, such as s3://kv-cache/inkling, gs://…"
            " or az://…",
        ),
    ),
]
HttpUrl = Annotated[
    str,
    text(512, matches("^https?://[^ /]+[^ ]*$", "write a URL with https:// or http://")),
]
Region = Annotated[str, text(64)]


class PodIdentity(Spec, frozen=True, kw_only=True):
    """EKS Pod Identity: the association in EKS names the role."""


class AwsIdentity(Spec, frozen=True, kw_only=True):
    """An identity of AWS."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.roleArn) != has(self.podIdentity)",
            message="give either `roleArn` (IRSA) or `podIdentity: {}` (EKS Pod Identity)",
            holds=lambda i: (i.role_arn is None) != (i.pod_identity is None),
        ),
    )

    role_arn: Annotated[
        RoleArn | None, doc("Role that the pod's ServiceAccount assumes (IRSA).")
    ] = None
    pod_identity: Annotated[
        PodIdentity | None, doc("Use the EKS Pod Identity association of the ServiceAccount.")
    ] = None


class DirectIdentity(Spec, frozen=True, kw_only=True):
    """GKE Workload Identity without impersonation: the ServiceAccount is the principal."""


class GcpIdentity(Spec, frozen=True, kw_only=True):
    """An identity of Google Cloud."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.serviceAccount) != has(self.direct)",
            message="give either `serviceAccount` (impersonation) or `direct: {}`",
            holds=lambda i: (i.service_account is None) != (i.direct is None),
        ),
    )

    service_account: Annotated[
        ServiceAccountEmail | None, doc("Google service account that the pod impersonates.")
    ] = None
    direct: Annotated[
        DirectIdentity | None, doc("Use the Kubernetes ServiceAccount itself as the principal.")
    ] = None


class AzureIdentity(Spec, frozen=True, kw_only=True):
    """An identity of Azure: the managed identity or app registration to federate with."""

    client_id: Annotated[Uuid, doc("Client id of the managed identity.")]
    tenant_id: Annotated[Uuid, doc("Tenant of the managed identity.")]


class DevelopmentIdentity(Spec, frozen=True, kw_only=True):
    """Static keys from the Secret `kindling-development-store`; for test stores only."""


_GIVEN: Final = (
    "[has(self.aws), has(self.gcp), has(self.azure), has(self.development)]"
    ".filter(given, given).size()"
)


class Identity(Spec, frozen=True, kw_only=True):
    """Who the serving pods are towards the object store."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"{_GIVEN} == 1",
            message="%d identities are given: give exactly one of `aws`, `gcp`, `azure` and"
            " `development`",
            holds=lambda i: len(i.providers) == 1,
            values=((_GIVEN, lambda i: len(i.providers)),),
        ),
    )

    aws: Annotated[AwsIdentity | None, doc("AWS, for s3:// stores.")] = None
    gcp: Annotated[GcpIdentity | None, doc("Google Cloud, for gs:// stores.")] = None
    azure: Annotated[AzureIdentity | None, doc("Azure, for az:// stores.")] = None
    development: Annotated[
        DevelopmentIdentity | None,
        doc(
            "Static keys from the Secret `kindling-development-store` of this namespace. Refused"
            " unless the operator was started with the switch for it."
        ),
    ] = None

    @property
    def providers(self) -> tuple[str, ...]:
        """Names of the identities that are given; one in a valid object."""
        names = ("aws", "gcp", "azure", "development")
        return tuple(name for name in names if getattr(self, name) is not None)


class CaBundle(Spec, frozen=True, kw_only=True):
    """Certificates in a ConfigMap of the namespace."""

    name: Annotated[ObjectName, doc("Name of the ConfigMap, in the same namespace.")]
    key: Annotated[SecretKey, doc("Key with the PEM certificates.")] = "ca.crt"


def _provider_matches(store: "ObjectStore") -> bool:
    scheme = store.uri.partition("://")[0]
    wanted = {"s3": "aws", "gs": "gcp", "az": "azure"}
    others = {provider for other, provider in wanted.items() if other != scheme}
    return len(store.identity.providers) != 1 or not others.intersection(store.identity.providers)


class ObjectStore(Spec, frozen=True, kw_only=True):
    """A bucket that keeps KV blocks across pods and restarts."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"{_GIVEN.replace('self.', 'self.identity.')} != 1"
            " || (!has(self.identity.aws) || !self.uri.matches('^(gs|az)://'))"
            " && (!has(self.identity.gcp) || !self.uri.matches('^(s3|az)://'))"
            " && (!has(self.identity.azure) || !self.uri.matches('^(s3|gs)://'))",
            message="the identity must belong to the store %s: `aws` for s3://, `gcp` for gs://,"
            " `azure` for az://",
            holds=_provider_matches,
            path=".identity",
            values=(("self.uri", lambda store: store.uri),),
        ),
    )

    uri: Annotated[StoreUri, doc("Bucket and prefix: s3://, gs:// or az://.")]
    region: Annotated[Region | None, doc("Region of the bucket, such as eu-west-1.")] = None
    endpoint: Annotated[
        HttpUrl | None, doc("Address of an S3-compatible store. Default: the provider's own.")
    ] = None
    token_endpoint: Annotated[
        HttpUrl | None,
        doc(
            "Address that hands out credentials: STS, Azure authority or metadata server. Default:"
            " the provider's own."
        ),
    ] = None
    ca_bundle: Annotated[
        CaBundle | None, doc("Further certificate authorities that the store is checked against.")
    ] = None
    identity: Annotated[Identity, doc("Who the serving pods are towards the store; exactly one.")]
    sharing: Annotated[
        Sharing,
        doc(
            "Who may reuse blocks. Namespace: models of this namespace in this cluster; Bucket:"
            " every writer of the bucket, all of which are trusted."
        ),
    ] = Sharing.NAMESPACE
    admission: Annotated[
        Admission,
        doc("Always writes every block; SecondUse only those that were asked for twice."),
    ] = Admission.SECOND_USE
    max_bytes: Annotated[
        Quantity | None, doc("Space that this model may take, such as 20Ti. Default: no limit.")
    ] = None
    max_age: Annotated[
        Duration | None, doc("Age at which unused blocks are removed. Default: no limit.")
    ] = None


class Cache(Spec, frozen=True, kw_only=True):
    """KV cache below GPU memory."""

    host_memory: Annotated[
        QuantityOrZero | None,
        doc(
            "Host memory for KV blocks per pod, all its GPUs together, such as 200Gi; 0 switches"
            " the tier off. Not on CPU, nor for an engine over several nodes. Default: chosen by"
            " the plan."
        ),
    ] = None
    encoder_memory: Annotated[
        QuantityOrZero | None,
        doc(
            "Host memory per pod for encoded images and audio, of models on GPUs that take them,"
            " such as Inkling. Default: none."
        ),
    ] = None
    object_store: Annotated[
        ObjectStore | None, doc("Bucket that keeps KV blocks across pods. Default: none.")
    ] = None
