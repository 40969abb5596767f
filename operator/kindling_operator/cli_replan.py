"""``kindling replan``: the user's word that a better plan may replace the replicas."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from kindling_operator.cli_connection import Connection, connected, key_of, model_name
from kindling_operator.kube.client import Kube
from kindling_operator.kube.kinds import MODEL
from kindling_operator.model.conditions import rfc3339
from kindling_operator.model.names import ANNOTATION_REPLAN, Key

FIELD_MANAGER = "kindling-cli"


def replan_command(options: argparse.Namespace) -> int:
    """Write the present time into the model's annotation."""
    model_name(options.model)
    moment = rfc3339(datetime.now(UTC))

    async def work(connection: Connection) -> Key:
        key = key_of(connection, options)
        await replan(connection.kube, key, moment)
        return key

    key = connected(options, work)
    watch = f"kubectl get im {key.name} -n {key.namespace} -w"
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
