"""The operator's only way to read beyond its indexes and to write: the official dynamic client."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, Final, Self

import aiohttp
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.dynamic import DynamicClient
from kubernetes.aio.dynamic.resource import Resource

from kindling_operator import __version__
from kindling_operator.kube.applytext import CONTENT_TYPE, apply_text
from kindling_operator.kube.errors import FencedError, KubeError, NotFoundError, translate
from kindling_operator.kube.fence import Fence
from kindling_operator.kube.kinds import CLUSTER_SCOPED
from kindling_operator.model.names import Kind
from kindling_operator.model.objects import ObjectRef

Body = dict[str, Any]

USER_AGENT: Final = f"kindling-operator/{__version__}"
CALL_SECONDS: Final = 10.0
"""Deadline of one request; an idle API server answers an apply in about 14 ms."""
PAGE: Final = 500
"""Objects per page of a list."""

_READS: Final = frozenset({"GET", "HEAD"})
_METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

Counted = Callable[[str, str, str, float], None]
"""Called after each request with verb, kind, outcome ("ok" or the error's reason) and seconds."""


def uncounted(_verb: str, _kind: str, _outcome: str, _seconds: float) -> None:
    """Count nothing."""


class Kube:
    """Requests with deadlines, typed errors and, where a fence is given, only from the leader.

    Every method raises a subclass of `kube.errors.KubeError` and nothing else. Objects are plain
    dicts. Make one with `async with Kube(configuration) as kube`.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        fence: Fence | None = None,
        counted: Counted = uncounted,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        """`fence` None: for the Lease itself, and for processes that only read."""
        self._fence = fence
        self._counted = counted
        self._call_seconds = call_seconds
        if fence is not None:
            configuration.trace_configs = [_fenced(fence)]
        self._api = ApiClient(configuration)
        self._api.user_agent = USER_AGENT
        # Kinds are known here, so the client discovers nothing and keeps no file of it.
        self._dynamic = DynamicClient(self._api)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Give back the connections."""
        await self._api.close()

    async def server_minor(self) -> int:
        """The API server's minor version, 37 for Kubernetes 1.37."""
        found = await self._call(
            "version", "Version", lambda t: self._dynamic.request("get", "/version", **t)
        )
        return int("".join(filter(str.isdigit, str(found.get("minor", "0")))) or 0)

    async def get(self, kind: Kind, namespace: str, name: str) -> Body:
        """The object; NotFoundError if there is none."""
        resource = self._resource(kind)
        return await self._call(
            "get",
            kind.kind,
            lambda t: self._dynamic.get(resource, name=name, namespace=namespace, **t),
            what=f"get {kind.kind} {namespace}/{name}",
        )

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        selector: str = "",
        fields: str = "",
        metadata_only: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[Body]:
        """Every object of a kind ("" is all namespaces), read in pages; at most `limit` if given.

        `selector` is for labels, `fields` for fields. `metadata_only` asks for uid,
        resourceVersion and labels without spec and status.
        """
        query = {
            "namespace": namespace or None,
            "label_selector": selector or None,
            "field_selector": fields or None,
            "limit": limit or PAGE,
            "header_params": {"Accept": _METADATA_ONLY} if metadata_only else {},
        }
        while True:
            page = await self._page(kind, query)
            for item in page.get("items") or ():
                yield item
            following = page.get("metadata", {}).get("continue", "")
            if not following or limit is not None:
                return
            query["_continue"] = following

    async def serves(self, kind: Kind, namespace: str = "") -> bool:
        """Whether the API server knows the kind: a CRD may be installed, and removed, any time."""
        try:
            async for _ in self.list(kind, namespace=namespace, limit=1):
                break
        except NotFoundError:
            return False
        return True

    @asynccontextmanager
    async def reading(
        self,
        kind: Kind,
        *,
        wait: aiohttp.ClientTimeout,
        namespace: str = "",
        selector: str = "",
        following: str = "",
        since: str = "",
        seconds: int = 0,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A page of a list, the one that is `following`, or a watch of what changes `since` a
        version for so many `seconds`: the answer, whose body is not read yet."""
        watch = {"resource_version": since, "watch": "true", "timeout_seconds": seconds}
        page = {"limit": PAGE, "_continue": following or None}
        verb = "watch" if since else "list"
        started, outcome = time.monotonic(), "ok"
        try:
            answer = await self._dynamic.get(
                self._resource(kind),
                namespace=namespace or None,
                label_selector=selector or None,
                query_params=[("allowWatchBookmarks", "true")] if since else [],
                header_params={},
                serialize=False,
                _request_timeout=wait,
                **(watch if since else page),
            )
            async with answer:
                yield answer
        except Exception as error:
            known = translate(error, what=f"{verb} {kind.kind}")
            outcome = known.reason
            raise known from error
        finally:
            self._counted(verb, kind.kind, outcome, time.monotonic() - started)

    async def _page(self, kind: Kind, query: dict[str, Any]) -> Body:
        resource = self._resource(kind)
        return await self._call(
            "list", kind.kind, lambda t: self._dynamic.get(resource, **_fresh(query), **t)
        )

    async def apply(
        self, manifest: Mapping[str, Any], kind: Kind, *, manager: str, force: bool = True
    ) -> Body:
        """Server-side apply; the object as it is after it.

        With metadata.uid in the manifest it is never created; with metadata.resourceVersion it
        must not have changed. `force` takes over fields that others hold. ConflictError if a
        precondition does not hold, or if another holds a field and `force` is off.
        """
        return await self._apply(self._resource(kind), manifest, kind, manager, force=force)

    async def apply_status(self, manifest: Mapping[str, Any], kind: Kind, *, manager: str) -> Body:
        """Server-side apply of the status subresource."""
        resource = self._resource(kind).subresources["status"]
        return await self._apply(resource, manifest, kind, manager, verb="apply-status")

    async def create(
        self, manifest: Mapping[str, Any], kind: Kind, *, manager: str | None = None
    ) -> Body:
        """Create; ConflictError if the name is taken.

        Unlike an apply it never adopts what somebody else makes at the same moment. The fields
        belong to `manager` (None: to the user agent) as of an update: `claim` them before the
        first apply.
        """
        resource, body = self._resource(kind), dict(manifest)
        return await self._call(
            "create",
            kind.kind,
            lambda t: self._dynamic.create(resource, body=body, field_manager=manager, **t),
            what=f"create {kind.kind} {_path(body)}",
        )

    async def claim(self, ref: ObjectRef, entry: int) -> Body:
        """Make the fields of a creation those of an apply, so that a later apply can drop some.

        `entry` is the creation's place in metadata.managedFields of the object as observed;
        ConflictError if it changed since. As client-go's csaupgrade does it.
        """
        resource = self._resource(ref.kind)
        patch = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": ref.resource_version},
            {
                "op": "replace",
                "path": f"/metadata/managedFields/{entry}/operation",
                "value": "Apply",
            },
        ]
        return await self._call(
            "claim",
            ref.kind.kind,
            lambda t: self._dynamic.patch(
                resource,
                body=patch,
                name=ref.name,
                namespace=ref.namespace,
                content_type="application/json-patch+json",
                **t,
            ),
            what=f"claim {ref}",
        )

    async def replace(self, manifest: Mapping[str, Any], kind: Kind) -> Body:
        """Replace; ConflictError unless metadata.resourceVersion is the present one."""
        resource, body = self._resource(kind), dict(manifest)
        return await self._call(
            "update",
            kind.kind,
            lambda t: self._dynamic.replace(resource, body=body, **t),
            what=f"update {kind.kind} {_path(body)}",
        )

    async def delete(self, ref: ObjectRef) -> None:
        """Delete this very object, unchanged since it was observed, and its dependents after it.

        ConflictError if it changed or was made again, NotFoundError if it is gone.
        """
        resource = self._resource(ref.kind)
        options = {
            "propagationPolicy": "Background",
            "preconditions": {"uid": ref.uid, "resourceVersion": ref.resource_version},
        }
        await self._call(
            "delete",
            ref.kind.kind,
            lambda t: self._dynamic.delete(
                resource, name=ref.name, namespace=ref.namespace, body=options, **t
            ),
            what=f"delete {ref}",
        )

    async def _apply(
        self,
        resource: Resource,
        manifest: Mapping[str, Any],
        kind: Kind,
        manager: str,
        *,
        verb: str = "apply",
        force: bool = True,
    ) -> Body:
        metadata, text = manifest["metadata"], apply_text(manifest)
        path = resource.path(name=metadata["name"], namespace=metadata.get("namespace"))
        return await self._call(
            verb,
            kind.kind,
            lambda t: self._dynamic.request(
                "patch",
                path,
                body=text,
                content_type=CONTENT_TYPE,
                field_manager=manager,
                force_conflicts=force,
                **t,
            ),
            what=f"{verb} {kind.kind} {_path(manifest)}",
        )

    async def _call(
        self,
        verb: str,
        kind: str,
        send: Callable[[dict[str, Any]], Awaitable[Any]],
        what: str = "",
    ) -> Body:
        started, outcome = time.monotonic(), "ok"
        try:
            seconds = self._allowed(verb)
            transport = {"_request_timeout": seconds, "serializer": _plain}
            async with asyncio.timeout(seconds):
                found: Body = await send(transport)
            return found
        except Exception as error:
            known = translate(error, what=what or f"{verb} {kind}")
            outcome = known.reason
            raise known from error
        finally:
            self._counted(verb, kind, outcome, time.monotonic() - started)

    def _allowed(self, verb: str) -> float:
        """Seconds that a request may take: a write must have ended before the Lease can change."""
        if self._fence is None or verb in {"get", "list", "version"}:
            return self._call_seconds
        self._fence.check()
        return min(self._call_seconds, self._fence.budget())

    def _resource(self, kind: Kind) -> Resource:
        namespaced = kind not in CLUSTER_SCOPED
        return Resource(
            prefix="apis" if kind.group else "api",
            group=kind.group,
            api_version=kind.version,
            kind=kind.kind,
            namespaced=namespaced,
            name=kind.plural,
            client=self._dynamic,
            subresources={
                "status": {
                    "kind": kind.kind,
                    "name": f"{kind.plural}/status",
                    "namespaced": namespaced,
                }
            },
        )


def _plain(_client: object, data: Body) -> Body:
    return data


def _fresh(query: dict[str, Any]) -> dict[str, Any]:
    """The client fills in the headers that it is given; the next page must start without them."""
    return {**query, "header_params": dict(query["header_params"])}


def _path(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata", {})
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _fenced(fence: Fence) -> aiohttp.TraceConfig:
    """Check the fence again at the last moment: getting a connection can take seconds."""

    async def before_headers(
        _session: aiohttp.ClientSession,
        _context: SimpleNamespace,
        request: aiohttp.TraceRequestHeadersSentParams,
    ) -> None:
        if request.method not in _READS:
            fence.check()

    tracing = aiohttp.TraceConfig()
    tracing.on_request_headers_sent.append(before_headers)
    return tracing


__all__ = ["CALL_SECONDS", "Body", "Counted", "FencedError", "Kube", "KubeError", "uncounted"]
