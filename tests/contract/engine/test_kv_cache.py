"""The planner's KV cache against a vLLM that is started: what it logs and exports, to the digit.

The architecture is not written here: it comes from the model's own config.json, as
`kindling catalog import` reads it.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import pytest
from tests.images.built import build, container, inside
from tests.support.tinymodel.architectures import Architecture as Tiny
from tests.support.tinymodel.make_model import make_model

from kindling_operator.catalog.folder import read
from kindling_operator.model.architecture import Architecture
from kindling_operator.plan.kv import kv_budget, kv_layout

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

GIB: Final = 1 << 30
BLOCK_TOKENS: Final = 128
SCRIPT: Final = Path(__file__).with_name("start_engines.py")
LOGGED: Final = re.compile(
    r"KV cache size: ([\d,]+) tokens, Maximum concurrency for ([\d,]+) tokens per request:"
    r" ([\d.]+)x"
)


@dataclass(frozen=True, slots=True)
class Case:
    """A model and what its engine is told; vLLM logs a line that it has logged before only once,
    so that no two cases may have the same numbers."""

    tiny: Tiny
    context: int
    batched: int
    layers: str | None = None

    @property
    def folder(self) -> str:
        return f"{self.tiny}-{self.layers or 'default'}"


CASES: Final = (
    Case(Tiny.QWEN3, context=2048, batched=2048),
    Case(Tiny.QWEN3_MOE, context=1024, batched=2048),
    Case(Tiny.GEMMA3, context=2048, batched=2048),
    Case(Tiny.GEMMA3, context=4096, batched=512),
    Case(Tiny.GEMMA3, context=4096, batched=1024, layers="sssff"),
    Case(Tiny.GEMMA3, context=4096, batched=1024, layers="ssssssff"),
    Case(Tiny.GPT_OSS, context=2048, batched=2048),
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    root.chmod(0o755)  # the image's user is not the one who runs the tests
    for case in CASES:
        make_model(root / case.folder, case.tiny, layers=case.layers)
        (root / case.folder).chmod(0o755)
    return root


@pytest.fixture(scope="module")
def output(models: Path) -> str:
    """What all engines printed, one after the other in one process."""
    cases = [[f"/models/{case.folder}", case.context, case.batched] for case in CASES]
    environment = {
        "HOME": "/tmp",
        "HF_HUB_OFFLINE": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    with container(build("runtime-cpu")) as name:
        settings = [f"{key}={value}" for key, value in environment.items()]
        return inside(
            name,
            "env",
            *settings,
            "python",
            "-",
            json.dumps(cases),
            given=SCRIPT.read_text(encoding="utf-8"),
            volumes={models: "/models"},
            seconds=1500,
        )


def planned(case: Case, models: Path) -> tuple[int, tuple[str, str, str]]:
    """Blocks, and the line's numbers, as the planner computes them from config.json."""
    found = read(models / case.folder)
    checkpoint = {"name": found.weights.format, "bytes": found.weights.bytes}
    wire = found.architecture | {"checkpoints": [checkpoint]}
    architecture = msgspec.convert(wire, Architecture)
    layout = kv_layout(architecture, block_tokens=BLOCK_TOKENS)
    # No asynchronous scheduling on CPU: one batch is in flight.
    budget = kv_budget(layout, pool_bytes=GIB, context=case.context, in_flight=case.batched)
    numbers = (f"{budget.tokens:,}", f"{case.context:,}", budget.full_context_requests)
    return budget.blocks, numbers


def test_size_and_concurrency_are_what_vllm_logs(models: Path, output: str) -> None:
    assert LOGGED.findall(output) == [planned(case, models)[1] for case in CASES]


def test_blocks_are_what_vllm_exports(models: Path, output: str) -> None:
    exported = json.loads(output.splitlines()[-1])

    assert exported == {"blocks": [planned(case, models)[0] for case in CASES]}
