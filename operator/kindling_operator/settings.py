"""The operator's settings: environment variables in, one frozen value out, and kopf's knobs."""

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import kopf

from kindling_operator.catalog import CatalogError, runtimes
from kindling_operator.installation import environment
from kindling_operator.kube.kinds import LEASE
from kindling_operator.model.names import Kind
from kindling_operator.model.quantities import duration_seconds, is_quantity
from kindling_operator.model.snapshot import Environment
from kindling_operator.observe.watched import WATCHED
from kindling_operator.reconcile.lease import LeaseTiming
from kindling_operator.reconcile.process import Tuning

PREFIX: Final = "KINDLING_"
STREAMING_MINOR: Final = 34
"""Kubernetes 1.34 streams initial lists by default (KEP-3157): no whole list in memory at once."""
LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class SettingsError(Exception):
    """A variable that cannot be used; the text is one sentence for whoever set it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting of the operator. Each is KINDLING_ and the field's name in upper case."""

    cuda_image: str
    """Runtime image for GPUs, by digest; required."""
    cpu_image: str
    """Runtime image for CPUs, by digest; required."""
    image_pull_policy: str = "IfNotPresent"
    """Always, IfNotPresent or Never; for serving pods."""
    image_pull_secrets: tuple[str, ...] = ()
    """Names of Secrets of the model's namespace, separated by commas; for serving pods."""
    name_foreign_holders: bool = False
    """Whether messages name objects of other namespaces that hold GPUs."""
    development_store: bool = False
    """Whether spec.cache.objectStore.identity.development is allowed."""
    prove_endpoint: bool = True
    """Whether old replicas stay until an answer of a new one came through the Service."""
    cache_claim: str = ""
    """The spec.model.weights.cacheClaim of models that name none. Default: none."""
    cache_max_bytes: str = ""
    """The spec.model.weights.cacheMaxBytes of models that name none. Default: none."""
    runtimes: str = ""
    """What further runtime images can do: a list in the form of catalog/runtimes/*.yaml."""
    pod_name: str = ""
    """Name of the operator's pod: holder of the Lease, reporter of events. Default: host name."""
    pod_namespace: str = ""
    """Namespace of the Lease. Default: the service account's."""
    watch_namespaces: tuple[str, ...] = ()
    """Namespaces to serve, separated by commas; the operator's own is always among them. Default:
    all. GPUs held by pods of other namespaces are not seen then."""
    lease_name: str = "kindling-operator"
    """Name of the Lease."""
    lease_duration: float = 15.0
    """A duration: after this time without a renewal another process may lead."""
    renew_deadline: float = 10.0
    """A duration: the leader writes nothing later than this after a renewal."""
    retry_period: float = 2.0
    """A duration: time between two tries to take or renew the Lease."""
    workers: int = 4
    """Models that are reconciled at the same time."""
    audit_interval: float = 60.0
    """A duration: time between two comparisons of the indexes with the API server."""
    audit_grace: float = 30.0
    """A duration: how long index and API server may differ before it counts as a lost event."""
    resync_interval: float = 600.0
    """A duration: every model is looked at at least this often."""
    health_port: int = 8080
    """Port of /healthz; 0 for none."""
    metrics_port: int = 9090
    """Port of /metrics; 0 for none."""
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """The settings; raises SettingsError for a value that cannot be used."""
        values: dict[str, Any] = {}
        for name, declared in cls.__annotations__.items():
            raw = environment.get(f"{PREFIX}{name.upper()}", "").strip()
            if raw:
                values[name] = _read(name, raw, declared)
        for required in ("cuda_image", "cpu_image"):
            if not values.get(required):
                raise SettingsError(
                    f"{PREFIX}{required.upper()} is not set: set it to the runtime image that the"
                    " operator should start."
                )
        values.setdefault("pod_name", os.uname().nodename)
        values.setdefault("pod_namespace", _own_namespace())
        found = cls(**values)
        _check(found)
        return found

    def installation(self, described: str = "") -> Environment:
        """The part that decisions depend on; `described` runtimes take the place of the own ones.

        Raises `CatalogError` for a broken catalog or description.
        """
        return environment(
            cuda_image=self.cuda_image,
            cpu_image=self.cpu_image,
            image_pull_policy=self.image_pull_policy,
            image_pull_secrets=self.image_pull_secrets,
            name_foreign_holders=self.name_foreign_holders,
            development_store=self.development_store,
            prove_endpoint=self.prove_endpoint,
            cache_claim=self.cache_claim,
            cache_max_bytes=self.cache_max_bytes,
            described=described or self.runtimes,
        )

    def tuning(self) -> Tuning:
        """The part that the process runs by, with an identity that no other process has."""
        return Tuning(
            identity=f"{self.pod_name}_{uuid.uuid4().hex[:8]}",
            namespace=self.pod_namespace,
            lease_name=self.lease_name,
            lease=LeaseTiming(self.lease_duration, self.renew_deadline, self.retry_period),
            workers=self.workers,
            audit_interval=self.audit_interval,
            resync_interval=self.resync_interval,
            grace=self.audit_grace,
            namespaces=self.namespaces,
        )

    @property
    def lease_selector(self) -> str:
        """Field selector of our Lease: other Leases are renewed by every node all the time."""
        return f"metadata.name={self.lease_name},metadata.namespace={self.pod_namespace}"

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The watched namespaces with the operator's own; none is all."""
        if not self.watch_namespaces:
            return ()
        return tuple(sorted({*self.watch_namespaces, self.pod_namespace}))


def configure_kopf(knobs: kopf.OperatorSettings, settings: Settings, *, server_minor: int) -> None:
    """Make kopf an informer: it never writes, never joins a peering, and dies with its watches."""
    knobs.peering.standalone = True
    knobs.posting.enabled = False
    knobs.posting.loggers = False
    # Kinds and namespaces are fixed at the start, so neither CRDs nor namespaces are watched.
    knobs.scanning.disabled = True
    knobs.networking.connect_timeout = 10
    knobs.networking.request_timeout = 60
    # An API server that was away is found again within seconds, not after kopf's 21.
    knobs.networking.error_backoffs = (0.5, 1, 1, 2, 2, 3, 3, 5, 5, 5)
    knobs.watching.initial_streaming = server_minor >= STREAMING_MINOR
    for watched in WATCHED:
        if watched.selector:
            knobs.watching.label_selectors[resource_parts(watched.kind)] = watched.selector
    knobs.watching.field_selectors[resource_parts(LEASE)] = settings.lease_selector
    # Nothing of ours stores state in objects; if a change ever did, the names would be ours.
    knobs.persistence.finalizer = "kindling.dev/finalizer"
    knobs.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="kopf.kindling.dev")
    knobs.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix="kopf.kindling.dev")


def resource_parts(kind: Kind) -> tuple[str, str] | tuple[str, str, str]:
    """A kind as kopf 1.45.2 matches it: in separate parts, since "v1/pods" matches nothing."""
    if kind.group:
        return kind.group, kind.version, kind.plural
    return kind.version, kind.plural


def _read(name: str, raw: str, declared: Any) -> Any:
    variable = f"{PREFIX}{name.upper()}"
    if declared is bool:
        if raw not in {"true", "false"}:
            raise SettingsError(f"{variable} is {raw!r}: set it to true or false.")
        return raw == "true"
    if declared is int:
        if not raw.isdecimal():
            raise SettingsError(f"{variable} is {raw!r}: set it to a whole number.")
        return int(raw)
    if declared is float:
        try:
            return duration_seconds(raw)
        except ValueError as error:
            raise SettingsError(f"{variable}: {error}.") from error
    if declared is str:
        return raw
    return tuple(part.strip() for part in raw.split(",") if part.strip())


def _check(found: Settings) -> None:
    try:
        runtimes.load_all(runtimes.decode_all(found.runtimes))
    except CatalogError as error:
        raise SettingsError(f"{PREFIX}RUNTIMES: {error}.") from error
    if found.image_pull_policy not in {"Always", "IfNotPresent", "Never"}:
        raise SettingsError(
            f"{PREFIX}IMAGE_PULL_POLICY is {found.image_pull_policy!r}: set it to Always,"
            " IfNotPresent or Never."
        )
    if found.cache_max_bytes and not is_quantity(found.cache_max_bytes, positive=True):
        raise SettingsError(
            f"{PREFIX}CACHE_MAX_BYTES is {found.cache_max_bytes!r}: set it to an amount with its"
            " unit, such as 2Ti."
        )
    if found.log_level not in LOG_LEVELS:
        raise SettingsError(
            f"{PREFIX}LOG_LEVEL is {found.log_level!r}: set it to one of {', '.join(LOG_LEVELS)}."
        )
    if not 1 <= found.workers <= 64:
        raise SettingsError(f"{PREFIX}WORKERS is {found.workers}: set it to 1 to 64.")
    if not found.retry_period * 2 <= found.renew_deadline < found.lease_duration:
        raise SettingsError(
            f"{PREFIX}RENEW_DEADLINE is {found.renew_deadline:g}s: set it to less than"
            f" LEASE_DURATION ({found.lease_duration:g}s) and at least twice RETRY_PERIOD"
            f" ({found.retry_period:g}s)."
        )
    if not found.pod_namespace:
        raise SettingsError(
            f"{PREFIX}POD_NAMESPACE is not set: set it to the namespace that keeps the Lease."
        )


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text().strip()
    except OSError:
        return ""
