"""The endpoint from outside the cluster, as the README says: port-forward and the openai client."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import openai
from tests.support.kube import Kube

CALL_SECONDS: Final = 60


@contextmanager
def forwarded(kube: Kube, target: str, namespace: str, *, port: int = 8000) -> Iterator[int]:
    """A local port that leads to `target` (svc/NAME or pod/NAME) while the block runs."""
    command = ["kubectl", "port-forward", "-n", namespace, target, f":{port}"]
    with subprocess.Popen(
        command,
        env=kube.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"127\.0\.0\.1:(\d+) ->", line)
            assert found, f"kubectl port-forward {target}: {line}{process.stdout.read()}"
            yield int(found[1])
        finally:
            process.terminate()
            process.communicate(timeout=10)


@contextmanager
def client(kube: Kube, model: str, namespace: str, *, port: int = 8000) -> Iterator[openai.OpenAI]:
    """The official client on the model's Service, through a port-forward."""
    with (
        forwarded(kube, f"svc/{model}", namespace, port=port) as local,
        openai.OpenAI(
            base_url=f"http://127.0.0.1:{local}/v1",
            api_key="none",
            timeout=CALL_SECONDS,
            max_retries=0,
        ) as api,
    ):
        yield api
