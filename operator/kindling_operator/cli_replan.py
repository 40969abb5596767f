"""``kindling replan``: the user's word that a better plan may replace the replicas."""

from __future__ import annotations

import argparse
import asyncio
import os
from datetime import UTC, datetime

from kubernetes.aio import config
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.config_exception import ConfigException

from kindling_operator.cli_failure import REFUSED, Failure, usage
from kindling_operator.kube.client import Kube
from kindling_operator.kube.errors import KubeError
from kindling_operator.kube.kinds import MODEL
from kindling_operator.model.conditions import rfc3339
from kindling_operator.model.names import ANNOTATION_REPLAN, Key

FIELD_MANAGER = "kindling-cli"

_KINDS = ("im", "inferencemodel", "inferencemodels")


def replan_command(options: argparse.Namespace) -> int:
    """Write the present time into the model's annotation."""
    kind, slash, name = options.model.partition("/")
    if not slash or kind not in _KINDS or not name:
        raise usage(f"{options.model!r} names no model; write im/NAME")
    return asyncio.run(_replan(name, namespace=options.namespace, context=options.context))


async def _replan(name: str, *, namespace: str | None, context: str | None) -> int:
    configuration = Configuration()
    try:
        await config.load_kube_config(
            config_file=_kubeconfig(), context=context, client_configuration=configuration
        )
        key = Key(namespace or _namespace_of(context), name)
    except (ConfigException, OSError) as error:
        raise usage(
            f"the kubeconfig cannot be used ({error}): set KUBECONFIG or give --context"
        ) from error
    moment = rfc3339(datetime.now(UTC))
    try:
        async with Kube(configuration) as kube:
            await replan(kube, key, moment)
    except KubeError as error:
        raise Failure(str(error), code=REFUSED) from error
    watch = f"kubectl get im {name} -n {key.namespace} -w"
    print(
        f"{key} plans anew as of {moment}, and its replicas are replaced; follow it with: {watch}"
    )
    return 0


async def replan(kube: Kube, key: Key, moment: str) -> None:
    """Set the annotation on the object that exists; raises `KubeError`, never creates one."""
    found = await kube.get(MODEL, key.namespace, key.name)
    metadata = {
        "name": key.name,
        "namespace": key.namespace,
        "uid": found["metadata"]["uid"],
        "annotations": {ANNOTATION_REPLAN: moment},
    }
    body = {"apiVersion": MODEL.api_version, "kind": MODEL.kind, "metadata": metadata}
    await kube.apply(body, MODEL, manager=FIELD_MANAGER)


def _namespace_of(context: str | None) -> str:
    """The namespace that kubectl would take."""
    contexts, current = config.list_kube_config_contexts(config_file=_kubeconfig())
    chosen = next((each for each in contexts if each["name"] == context), current)
    namespace: str = (chosen.get("context") or {}).get("namespace") or "default"
    return namespace


def _kubeconfig() -> str | None:
    """KUBECONFIG as it is now; the client's own default is what it was when it was imported."""
    return os.environ.get("KUBECONFIG") or None
