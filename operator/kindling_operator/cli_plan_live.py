"""``kindling plan --context``: what the cluster's own operator would decide now."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from kindling_operator import __version__
from kindling_operator.cli_cluster import Operator, look, operator_of, with_models
from kindling_operator.cli_connection import Connection, connected
from kindling_operator.cli_failure import REFUSED, Failure
from kindling_operator.cli_files import described_runtimes, models_of, released
from kindling_operator.model.names import Key
from kindling_operator.model.snapshot import Environment, Snapshot
from kindling_operator.settings import Settings, SettingsError


def live_snapshot(options: argparse.Namespace) -> tuple[Snapshot, Sequence[Key]]:
    """The cluster as if the file had been applied, and the models of the file."""

    async def work(connection: Connection) -> tuple[Snapshot, Sequence[Key]]:
        models = tuple(models_of(options.filename, options.namespace or connection.namespace))
        operator = await operator_of(connection.kube)
        settings = _settings(operator) if operator is not None else None
        _say_as_whom(operator, connection.context)
        found = await look(
            connection.kube,
            _environment(options, settings),
            settings.namespaces if settings is not None else (),
        )
        return with_models(found, models), sorted({model.key for model in models})

    return connected(options, work)


def _say_as_whom(operator: Operator | None, context: str) -> None:
    """On the error stream: what is printed beside it may be for a machine."""
    if operator is None:
        note = f"no operator runs in {context}: planned with this release's images"
    else:
        name = f"{operator.namespace}/{operator.name}"
        note = f"as the operator {name} would decide"
        if operator.version != __version__:
            note += f", except that it is {operator.version or 'of an unknown version'} and this"
            note += f" is {__version__}"
    print(f"kindling: {note}", file=sys.stderr)


def _settings(operator: Operator) -> Settings:
    """What the operator was installed with, from the variables of its Deployment."""
    variables = {name: value for name, value in operator.variables.items() if value}
    try:
        return Settings.from_environment(
            {**variables, "KINDLING_POD_NAMESPACE": operator.namespace}
        )
    except SettingsError as error:
        raise Failure(
            f"Deployment {operator.namespace}/{operator.name}: {error}", code=REFUSED
        ) from error


def _environment(options: argparse.Namespace, settings: Settings | None) -> Environment:
    if settings is None:
        return released(options)
    base = settings.installation(described_runtimes(options.runtimes))
    return replace(
        base,
        cuda_image=options.cuda_image or base.cuda_image,
        cpu_image=options.cpu_image or base.cpu_image,
    )
