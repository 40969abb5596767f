"""The cluster as a test sees it: kubectl for what people type, the API for everything else."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError
from kubernetes.dynamic.resource import Resource
from tests.support.waiting import Say, until

from kindling_operator.kube import kinds
from kindling_operator.kube.kinds import CLAIM, EVENT, MODEL, NODE, POD
from kindling_operator.kube.kinds import ENDPOINT_SLICE as SLICE
from kindling_operator.model import names
from kindling_operator.model.names import Kind

__all__ = [
    "AWAY",
    "CLAIM",
    "COMMON_KINDS",
    "CRD",
    "EVENT",
    "MODEL",
    "NAMESPACE",
    "NODE",
    "POD",
    "SCALER",
    "SLICE",
    "VOLUME",
    "Condition",
    "Kube",
    "KubectlError",
    "Object",
    "conditions",
    "owner_uid",
]

Object = dict[str, Any]

NAMESPACE: Final = Kind("v1", "Namespace", "namespaces")
VOLUME: Final = Kind("v1", "PersistentVolume", "persistentvolumes")
SCALER: Final = Kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
CRD: Final = Kind(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"
)
CLUSTER_SCOPED: Final = frozenset({*kinds.CLUSTER_SCOPED, CRD, NAMESPACE, VOLUME})

AWAY: Final = (urllib3.exceptions.HTTPError, ApiException, DynamicApiError)
"""What a call raises while the API server is down or just up; for the `forgive` of a wait."""

CALL_SECONDS: Final = 30


class KubectlError(AssertionError):
    """kubectl ended with an error; `err` is what it printed for the person."""

    def __init__(self, command: tuple[str, ...], err: str) -> None:
        super().__init__(f"kubectl {' '.join(command)}: {err.strip()}")
        self.err = err


COMMON_KINDS: Final = tuple(k for k in names.CHILD_KINDS if k not in names.OPTIONAL_KINDS)
"""What a model has on every cluster; replicas of several pods need an API of somebody else's."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a status."""

    type: str
    status: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.type}={self.status}/{self.reason}: {self.message}"


class Kube:
    """One cluster, as its admin. Every call has a deadline; waits say what they wait for."""

    def __init__(self, environment: Mapping[str, str], *, say: Say = print) -> None:
        """`environment` holds at least KUBECONFIG and a PATH with kubectl on it."""
        self.environment = dict(environment)
        self.say = say
        settings = client.Configuration()
        config.load_kube_config(environment["KUBECONFIG"], client_configuration=settings)
        settings.retries = urllib3.Retry(0)
        self._api = client.ApiClient(settings)
        # Kinds are known here, so nothing has to be discovered first.
        self._dynamic = DynamicClient(self._api, discoverer=lambda *_: None)

    def close(self) -> None:
        """Give back the connections."""
        self._api.rest_client.pool_manager.clear()

    def kubectl(self, *command: str, stdin: str | None = None, seconds: float = 60) -> str:
        """What `kubectl COMMAND` prints; raises KubectlError with its error text."""
        done = subprocess.run(
            ["kubectl", *command],
            input=stdin,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode != 0:
            raise KubectlError(command, done.stderr or done.stdout)
        return done.stdout

    def apply(self, *manifests: Object) -> str:
        """`kubectl apply` as a person does it; returns its output."""
        return self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def refused(self, *manifests: Object) -> str:
        """The error text with which the API server refuses these; fails if it takes them."""
        try:
            out = self.apply(*manifests)
        except KubectlError as error:
            return error.err
        raise AssertionError(f"accepted instead of refused: {out}")

    def get(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """The object, or None if there is none of that name."""
        try:
            found = self._resource(kind).get(
                name=name, namespace=namespace or None, _request_timeout=CALL_SECONDS
            )
        except NotFoundError:
            return None
        return _plain(found)

    def have(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """The object; fails if there is none."""
        found = self.get(kind, name, namespace)
        assert found is not None, f"there is no {kind.kind} {namespace}/{name}"
        return found

    def find(self, kind: Kind, namespace: str = "", *, selector: str = "") -> list[Object]:
        """All objects of a kind in one namespace ("" is every namespace)."""
        found = self._resource(kind).get(
            namespace=namespace or None,
            label_selector=selector or None,
            _request_timeout=CALL_SECONDS,
        )
        return list(_plain(found)["items"])

    def patch(self, kind: Kind, name: str, namespace: str, patch: Object) -> Object:
        """A JSON merge patch; returns the object after it."""
        return _plain(
            self._resource(kind).patch(
                body=patch,
                name=name,
                namespace=namespace or None,
                content_type="application/merge-patch+json",
                _request_timeout=CALL_SECONDS,
            )
        )

    def delete(self, kind: Kind, name: str, namespace: str = "") -> None:
        """Delete in the background; no error if it is gone already."""
        try:
            self._resource(kind).delete(
                name=name,
                namespace=namespace or None,
                body={"propagationPolicy": "Background"},
                _request_timeout=CALL_SECONDS,
            )
        except NotFoundError:
            return

    def wait_gone(self, kind: Kind, name: str, namespace: str = "", *, seconds: float) -> None:
        """Wait until there is no object of that name."""
        until(
            f"{kind.kind} {namespace}/{name} to be gone",
            lambda: self.get(kind, name, namespace) is None,
            seconds=seconds,
            say=self.say,
        )

    def children(self, name: str, namespace: str) -> list[str]:
        """Kind and name of everything that carries a model's label, pods included."""
        selector = f"{names.LABEL_MODEL}={name}"
        return [
            f"{kind.kind} {each['metadata']['name']}"
            for kind in (*COMMON_KINDS, POD)
            for each in self.find(kind, namespace, selector=selector)
        ]

    def wait_childless(self, name: str, namespace: str, *, seconds: float) -> None:
        """Wait until nothing carries the model's label any more."""
        until(
            f"nothing of {namespace}/{name} to be left",
            lambda: not self.children(name, namespace),
            seconds=seconds,
            say=self.say,
            show=lambda: ", ".join(self.children(name, namespace)),
        )

    def wait_condition(
        self,
        name: str,
        namespace: str,
        *,
        type: str,  # noqa: A002 - the field's own name
        status: str = "True",
        reason: str = "",
        seconds: float,
        kind: Kind = MODEL,
    ) -> Object:
        """Wait for a condition (and a reason, if given) of the present generation; the object."""
        wanted = f"{type}={status}" + (f"/{reason}" if reason else "")

        def look() -> Object | None:
            found = self.get(kind, name, namespace)
            if found is None or _observed(found) < found["metadata"]["generation"]:
                return None
            seen = conditions(found).get(type)
            if seen is None or seen.status != status or (reason and seen.reason != reason):
                return None
            return found

        return until(
            f"{kind.kind} {namespace}/{name} to have {wanted}",
            look,
            seconds=seconds,
            say=self.say,
            show=lambda: self.told(name, namespace, kind=kind),
            brief=lambda: self.told(name, namespace, kind=kind, only="Progressing"),
            forgive=AWAY,
        )

    def told(self, name: str, namespace: str, *, kind: Kind = MODEL, only: str = "") -> str:
        """The object's conditions, or `only` one, a line each, as they are now."""
        try:
            found = self.get(kind, name, namespace)
        except AWAY as error:
            return f"the API server does not answer: {error}"
        if found is None:
            return f"there is no {kind.kind} {namespace}/{name}"
        lines = [str(each) for each in conditions(found).values() if only in ("", each.type)]
        return "\n".join(lines) or "no conditions yet"

    def events(self, namespace: str, name: str, *, kind: str = names.KIND) -> list[Object]:
        """Events that speak of one object, oldest first."""
        found = [
            event
            for event in self.find(EVENT, namespace)
            if event.get("regarding", {}).get("kind") == kind
            and event["regarding"].get("name") == name
        ]
        return sorted(found, key=lambda event: str(event["eventTime"]))

    def warnings(self, namespace: str) -> tuple[str, ...]:
        """The Warning events of a namespace, each as one line."""
        return tuple(
            f"{event['regarding'].get('kind')} {event['regarding'].get('name')}:"
            f" {event['reason']}: {event.get('note', '')}"
            for event in self.find(EVENT, namespace)
            if event.get("type") == "Warning"
        )

    def _resource(self, kind: Kind) -> Any:
        return Resource(
            prefix="apis" if kind.group else "api",
            group=kind.group,
            api_version=kind.version,
            kind=kind.kind,
            namespaced=kind not in CLUSTER_SCOPED,
            name=kind.plural,
            client=self._dynamic,
        )


def conditions(obj: Object) -> dict[str, Condition]:
    """The conditions of an object by type."""
    return {
        each["type"]: Condition(
            each["type"], each["status"], each.get("reason", ""), each.get("message", "")
        )
        for each in obj.get("status", {}).get("conditions", [])
    }


def owner_uid(obj: Object) -> str:
    """The uid of the object's controller, or ""."""
    owners = obj["metadata"].get("ownerReferences", [])
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


def _observed(obj: Object) -> int:
    return int(obj.get("status", {}).get("observedGeneration", obj["metadata"]["generation"]))


def _plain(answer: Any) -> Object:
    plain: Object = answer.to_dict()
    return plain
