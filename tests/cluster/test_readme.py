"""What the README tells a person to type, typed: only model, namespace and local port differ."""

import json
import re
import subprocess
import sys

import pytest
from tests.support.fixtures import Engine
from tests.support.kube import Kube
from tests.support.onenode import ROOT
from tests.support.openai_access import forwarded
from tests.support.ports import free_port

pytestmark = pytest.mark.cluster


def block(start: str, language: str = "") -> str:
    """The README's code block of that language that begins so."""
    text = (ROOT / "README.md").read_text()
    blocks: list[tuple[str, str]] = re.findall(
        r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    )
    found = [words for kind, words in blocks if kind == language and words.startswith(start)]
    assert len(found) == 1
    return found[0]


def output(kube: Kube, *command: str) -> str:
    return subprocess.run(
        command, env=kube.environment, capture_output=True, text=True, timeout=120, check=True
    ).stdout


def test_curl_gets_a_completion(shared_engine: Engine, kube: Kube) -> None:
    port = free_port()
    script = (
        block("kubectl port-forward")
        .replace("-n ml service/flint 8000 &", f"-n NAMESPACE service/flint {port}:8000 >&2 &")
        .replace("127.0.0.1:8000", f"127.0.0.1:{port}")
        .replace("flint", shared_engine.name)
        .replace("NAMESPACE", shared_engine.namespace)
    )
    answer = output(kube, "bash", "-euc", f"trap 'kill $!' EXIT\n{script}")

    found = json.loads(answer)
    assert found["model"] == shared_engine.name
    assert found["choices"][0]["message"]["content"]


def test_the_python_client_gets_a_stream(shared_engine: Engine, kube: Kube) -> None:
    target = f"service/{shared_engine.name}"
    with forwarded(kube, target, shared_engine.namespace) as port:
        program = (
            block("from openai", "python")
            .replace("127.0.0.1:8000", f"127.0.0.1:{port}")
            .replace("flint", shared_engine.name)
        )
        answer = output(kube, sys.executable, "-c", program)

    assert answer.strip()
