"""Files as kubectl prints them, into the snapshot that the planner decides from."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kindling_operator import __version__
from kindling_operator.catalog import CatalogError, runtimes
from kindling_operator.cli_failure import usage
from kindling_operator.installation import environment
from kindling_operator.kube.kinds import MODEL, NODE, POD, PRIORITY_CLASS
from kindling_operator.model.names import API_VERSION, KIND, Key, Kind
from kindling_operator.model.objects import ClaimView, NodeUse
from kindling_operator.model.parse import Invalid, ParsedModel, parse
from kindling_operator.model.snapshot import Environment, Snapshot
from kindling_operator.observe import parse as views
from kindling_operator.observe.fields import text
from kindling_operator.observe.foreign import ForeignPods
from kindling_operator.observe.nodes import node
from kindling_operator.plan.mounts import is_local, weights_mount

Body = Mapping[str, Any]


def snapshot_of(
    models_file: str,
    *,
    nodes_file: str,
    pods_file: str | None,
    namespace: str,
    environment: Environment,
) -> Snapshot:
    """A cluster of these nodes and pods, with nothing of the models in it.

    Claims that the models name count as present: no file tells of them. Raises `Failure` for a
    file that cannot be read.
    """
    models = _by_key(models_file, namespace)
    nodes = [node(body) for body in _objects(nodes_file, NODE)]
    bodies = list(_objects(pods_file, POD)) if pods_file else []
    pods = [views.pod(body) for body in bodies]
    return Snapshot(
        now=datetime.now(UTC),
        synced=True,
        environment=environment,
        models=models,
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        pods=tuple(sorted((p for p in pods if p is not None), key=lambda p: (p.namespace, p.name))),
        claims=tuple(claim for model in models.values() for claim in _claims(model)),
        priorities=_priorities((models_file, nodes_file, pods_file)),
        used=_used(bodies),
    )


def remarks(snapshot: Snapshot, nodes_file: str) -> Iterator[str]:
    """What a person should know of the files beside the decisions, one sentence each."""
    if not snapshot.nodes and not any(each.get("items") == [] for each in _documents(nodes_file)):
        yield f"{nodes_file} has no Node, so no model has a place: give `kubectl get nodes -o yaml`"
    for key, model in sorted(snapshot.models.items()):
        placement = model.spec.placement if isinstance(model, ParsedModel) else None
        name = placement.priority_class_name if placement is not None else None
        if name is not None and name not in snapshot.priorities:
            yield (
                f"{key}: the files have no PriorityClass {name}, so it is planned with priority 0:"
                " add the class to one of them"
            )


def _by_key(path: str, namespace: str) -> Mapping[Key, ParsedModel | Invalid]:
    """The models in a file, each once. Raises `Failure`."""
    found: dict[Key, ParsedModel | Invalid] = {}
    for model in models_of(path, namespace):
        if model.key in found:
            raise usage(f"{path} has {KIND} {model.key} twice: remove one")
        found[model.key] = model
    return found


def _priorities(paths: Iterable[str | None]) -> Mapping[str, int]:
    """The value of each PriorityClass in the files."""
    bodies = (body for path in paths if path for body in _objects(path, PRIORITY_CLASS))
    return {text(body, "metadata", "name"): views.priority(body) for body in bodies}


def _used(pods: Iterable[Body]) -> Mapping[str, NodeUse]:
    """What the pods take that have no view of their own, by node."""
    others = ForeignPods()
    for body in pods:
        if views.model_key(body) is None:
            others.put(msgspec.json.encode(body))
    return others.used


def described_runtimes(path: str | None) -> str:
    """The text of a file that describes runtime images, "" without one. Raises `Failure`."""
    if path is None:
        return ""
    try:
        written = Path(path).read_text("utf-8")
        runtimes.load_all(runtimes.decode_all(written))
    except (OSError, UnicodeDecodeError, CatalogError) as error:
        raise usage(f"{path} describes no runtime images: {error}") from error
    return written


def released(options: argparse.Namespace) -> Environment:
    """This release as it is, without an operator's settings; with the images that were typed."""
    return environment(
        cuda_image=options.cuda_image or f"kindling/runtime:{__version__}",
        cpu_image=options.cpu_image or f"kindling/runtime-cpu:{__version__}",
        described=described_runtimes(options.runtimes),
    )


def models_of(path: str, namespace: str) -> Iterator[ParsedModel | Invalid]:
    """The models in a file; `namespace` is of those that name none. Raises `Failure` for none."""
    found = 0
    for body in _objects(path, MODEL):
        version = body.get("apiVersion", API_VERSION)
        if version != API_VERSION:
            raise usage(f"{path}: {KIND} has apiVersion {version}: write {API_VERSION}")
        given = body.get("metadata") or {}
        if not isinstance(given, Mapping):
            raise usage(f"{path}: metadata of an {KIND} is no mapping: give it a name")
        try:
            model = parse({**body, "metadata": {"namespace": namespace, **given}})
        except msgspec.ValidationError as error:
            raise usage(f"{path}: metadata of an {KIND}: {error}") from error
        found += 1
        yield model
    if not found:
        raise usage(f"{path} has no {KIND}; give the manifest that you would apply")


def _claims(model: ParsedModel | Invalid) -> Iterator[ClaimView]:
    if not isinstance(model, ParsedModel) or model.spec.model.weights is None:
        return
    asked = model.spec.model.weights
    local = weights_mount(asked.uri).claim if asked.uri and is_local(asked.uri) else ""
    for name in dict.fromkeys((local, asked.cache_claim)):
        if name:
            yield ClaimView(model.key.namespace, name, phase="Bound", terminating=False)


def _objects(path: str, kind: Kind) -> Iterator[Body]:
    """The objects of a kind in a file, those in lists included; one may not say what it is."""
    unsaid = {"apiVersion": kind.api_version}
    if kind is not PRIORITY_CLASS:
        unsaid["kind"] = kind.kind
    for document in _documents(path):
        items = document.get("items") if str(document.get("kind", "")).endswith("List") else None
        for body in [document] if items is None else items:
            if isinstance(body, Mapping) and kind.is_of({**unsaid, **body}):
                yield body


def _documents(path: str) -> list[Body]:
    try:
        written = Path(path).read_text("utf-8")
        documents = list(
            yaml.load_all(written, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        )
    except OSError as error:
        raise usage(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise usage(f"{path} is neither YAML nor JSON: {' '.join(str(error).split())}") from error
    return [document for document in documents if isinstance(document, Mapping)]
