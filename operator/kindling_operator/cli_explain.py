"""``kindling explain``: the story of one model, from what the cluster tells about it."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from kindling_operator.cli_connection import Connection, connected, key_of, model_name
from kindling_operator.cli_failure import REFUSED, Failure
from kindling_operator.cli_seen import Seen, see
from kindling_operator.cli_story import story
from kindling_operator.cli_terminal import Terminal
from kindling_operator.kube.errors import ForbiddenError, NotFoundError


def explain_command(options: argparse.Namespace) -> int:
    """Print the story; 0 whatever it tells."""
    model_name(options.model)
    print(story(connected(options, lambda connection: _see(connection, options)), Terminal.of()))
    return 0


async def _see(connection: Connection, options: argparse.Namespace) -> Seen:
    key = key_of(connection, options)
    try:
        return await see(connection.kube, key, now=datetime.now(UTC))
    except NotFoundError as error:
        raise Failure(
            f"{connection.context} has no InferenceModel {key} ({error}): see `kubectl get im -A`",
            code=REFUSED,
        ) from error
    except ForbiddenError as error:
        raise Failure(
            f"you may not get inferencemodels in namespace {key.namespace}: ask for a role with"
            " the verb get on inferencemodels of kindling.dev",
            code=REFUSED,
        ) from error
