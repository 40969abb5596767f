"""The cluster that a command talks to, as kubectl would choose it."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import yaml
from kubernetes.aio import config
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.config_exception import ConfigException

from kindling_operator.cli_failure import REFUSED, Failure, usage
from kindling_operator.kube.client import Kube
from kindling_operator.kube.errors import KubeError
from kindling_operator.model.names import Key

_KINDS = ("im", "inferencemodel", "inferencemodels")

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster to ask, and the namespace where nothing else is said."""

    kube: Kube
    configuration: Configuration
    namespace: str
    context: str


def connected(
    options: argparse.Namespace, work: Callable[[Connection], Awaitable[_Result]]
) -> _Result:
    """Run `work` on the cluster of the options. Raises `Failure` for whatever stands in the way."""
    file = _kubeconfig(options.kubeconfig)
    return asyncio.run(_connected(file, options.context or None, work))


def model_name(argument: str) -> str:
    """The name in ``im/NAME``; raises `Failure` for anything else."""
    kind, slash, name = argument.partition("/")
    if not slash or kind not in _KINDS or not name:
        raise usage(f"{argument!r} names no model; write im/NAME")
    return name


def key_of(connection: Connection, options: argparse.Namespace) -> Key:
    """The model that ``im/NAME -n NS`` means."""
    return Key(options.namespace or connection.namespace, model_name(options.model))


def _kubeconfig(given: str | None) -> str:
    """The file or files; raises `Failure` if there is none.

    KUBECONFIG counts as it is now: the client's own default is what it was at its import.
    """
    file = given or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if not any(Path(part).expanduser().is_file() for part in file.split(os.pathsep)):
        raise usage(
            f"the kubeconfig cannot be used (there is no file {file}): set KUBECONFIG or give"
            " --kubeconfig"
        )
    return file


async def _connected(
    file: str,
    context: str | None,
    work: Callable[[Connection], Awaitable[_Result]],
) -> _Result:
    configuration = Configuration()
    try:
        await config.load_kube_config(
            config_file=file, context=context, client_configuration=configuration
        )
        contexts, current = config.list_kube_config_contexts(config_file=file)
        opened = Kube(configuration)  # reads certificates
    except (ConfigException, OSError) as error:
        raise usage(
            f"the kubeconfig cannot be used ({error}): correct it, or give another --context"
        ) from error
    except (yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError) as error:
        # The client trusts what it reads to be of the right shape.
        raise usage(
            f"the kubeconfig cannot be used ({file} does not read as one): correct it, or give"
            " another --kubeconfig"
        ) from error
    chosen = next((each for each in contexts if each["name"] == context), current)
    namespace: str = (chosen.get("context") or {}).get("namespace") or "default"
    try:
        async with opened as kube:
            return await work(Connection(kube, configuration, namespace, chosen["name"]))
    except KubeError as error:
        raise Failure(str(error), code=REFUSED) from error
