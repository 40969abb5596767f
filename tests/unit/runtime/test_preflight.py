"""Each check with the sentence that a person reads."""

import contextlib
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.support.engine.plans import launch_plan

from kindling_runtime.contract import BIND_HOST, Engine, LaunchPlan, Reason
from kindling_runtime.preflight import Preflight
from kindling_runtime.state import PreflightFailed

NOBODY = 65532


@pytest.fixture
def folder() -> Iterator[Path]:
    """A weights folder where any user may get to; pytest's own is closed to others."""
    root = Path(tempfile.mkdtemp(prefix="kindling-"))
    root.chmod(0o755)
    model = root / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    yield model
    shutil.rmtree(root)


def plan_for(model: Path, *, port: int = 1) -> LaunchPlan:
    return launch_plan(model, argv=(sys.executable, "-V"), port=port)


@contextlib.contextmanager
def ordinary_user() -> Iterator[int]:
    """Give up root's power to read anything, for a while; yields the user that is left."""
    if os.getuid() != 0:
        yield os.getuid()
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield NOBODY
    finally:
        os.setresuid(0, 0, 0)


def weights_problem(plan: LaunchPlan) -> str:
    """The sentence of what is wrong with the weights. An ordinary user may not even get to the
    engine's command."""
    said = _sentence(Preflight(plan).first_problem(), Reason.WEIGHTS_INCOMPLETE)
    return said.partition("; besides, ")[0]


def pod_problem(plan: LaunchPlan) -> str:
    """The sentence of what is wrong with the pod around them."""
    return _sentence(Preflight(plan).first_problem(), Reason.PREFLIGHT_FAILED)


def _sentence(failed: PreflightFailed | None, reason: Reason) -> str:
    assert failed is not None
    assert failed.reason is reason
    return failed.problem


def test_a_complete_folder_passes(folder: Path) -> None:
    with free_port() as port:
        pass

    assert Preflight(plan_for(folder, port=port)).first_problem() is None


def test_no_folder(folder: Path) -> None:
    assert weights_problem(plan_for(folder / "tiny")) == (
        f"the weights folder {folder}/tiny does not exist; "
        "make pvc://models/tiny name a folder that holds the model"
    )


def test_a_file_instead_of_a_folder(folder: Path) -> None:
    assert weights_problem(plan_for(folder / "config.json")) == (
        f"the weights folder {folder}/config.json is a file; "
        "make pvc://models/tiny name a folder that holds the model"
    )


def test_a_closed_folder(folder: Path) -> None:
    folder.chmod(0o700 if os.getuid() == 0 else 0o000)
    with ordinary_user() as user:
        problem = weights_problem(plan_for(folder))
    folder.chmod(0o755)

    assert problem == (
        f"the weights folder {folder} cannot be read by user {user}; "
        "make it readable for others (chmod -R a+rX) in pvc://models/tiny"
    )


def test_no_config(folder: Path) -> None:
    (folder / "config.json").unlink()

    assert weights_problem(plan_for(folder)) == (
        f"the weights folder {folder} has no config.json; "
        "make pvc://models/tiny name the folder that holds the model's files"
    )


def test_a_closed_file(folder: Path) -> None:
    (folder / "model.safetensors").touch(mode=0o600 if os.getuid() == 0 else 0o000)
    with ordinary_user() as user:
        problem = weights_problem(plan_for(folder))

    assert problem == (
        f"model.safetensors in the weights folder {folder} cannot be read by user {user}; "
        "make it readable for others (chmod a+r) in pvc://models/tiny"
    )


@pytest.mark.parametrize("content", ["", '{"architectures": [', "[]", "[" * 100_000])
def test_half_a_config(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)

    assert weights_problem(plan_for(folder)) == (
        f"config.json in the weights folder {folder} is not a JSON object; "
        "copy it again to pvc://models/tiny"
    )


def test_no_engine_in_the_image(folder: Path) -> None:
    plan = msgspec.structs.replace(plan_for(folder), engine=Engine(argv=("vlllm", "serve")))

    assert pod_problem(plan) == (
        "the engine's command vlllm is not in this image; "
        "use the runtime image of the operator's own release"
    )


def test_a_taken_port(folder: Path) -> None:
    with free_port(listen=True) as port:
        problem = pod_problem(plan_for(folder, port=port))

    assert problem == (
        f"port {port} of the engine cannot be bound (Address already in use); "
        "free it in the pod, or plan another"
    )


def test_what_the_file_system_says_is_passed_on(folder: Path) -> None:
    def stale(_: LaunchPlan) -> str | None:
        raise OSError(116, "Stale file handle", "/models")

    found = Preflight(plan_for(folder), ((Reason.WEIGHTS_INCOMPLETE, (stale,)),)).first_problem()
    assert _sentence(found, Reason.WEIGHTS_INCOMPLETE) == (
        "/models cannot be read (Stale file handle); see the volume of pvc://models/tiny"
    )


@contextlib.contextmanager
def free_port(*, listen: bool = False) -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind((BIND_HOST, 0))
        if listen:
            taken.listen()
        yield taken.getsockname()[1]
