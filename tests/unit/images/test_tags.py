"""Tags of images: a hash of what an image is made from, so that nothing is built twice."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.images.built import copy_of_repository
from tests.support.onenode import ROOT


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The parts of the repository that images/build reads, to change at will."""
    return copy_of_repository(tmp_path)


def build(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run images/build of `root`, without looking for another torch."""
    return subprocess.run(
        [root / "images" / "build", *arguments],
        env={**os.environ, "KINDLING_TORCH_INDEX": "", "KINDLING_CACHE": str(root / "cache")},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def tags(root: Path) -> dict[str, str]:
    done = build(root, "--print-tag", "operator", "runtime", "runtime-cpu")
    assert done.returncode == 0, done.stderr
    return dict(line.split("=") for line in done.stdout.splitlines())


def test_same_content_same_tags(copy: Path) -> None:
    before = tags(copy)
    (copy / "runtime/kindling_runtime/__pycache__").mkdir()
    (copy / "runtime/kindling_runtime/__pycache__/cli.cpython-311.pyc").write_bytes(b"x")
    assert tags(copy) == before == tags(ROOT)


@pytest.mark.parametrize(
    ("changed", "images"),
    [
        ("operator/kindling_operator/__init__.py", {"operator"}),
        ("runtime/kindling_runtime/contract/plan.py", {"operator", "runtime", "runtime-cpu"}),
        ("images/runtime-cpu/torch.lock", {"runtime-cpu"}),
        ("images/runtime/Containerfile", {"runtime"}),
        ("images/lib/debian.sh", {"operator", "runtime", "runtime-cpu"}),
        ("images/steps/install-wheels", {"operator", "runtime", "runtime-cpu"}),
        ("images/lib/registry.sh", set()),
    ],
)
def test_a_change_moves_the_tags_of_the_images_it_is_in(
    copy: Path, changed: str, images: set[str]
) -> None:
    before = tags(copy)
    with (copy / changed).open("a") as file:
        file.write("# changed\n")
    after = tags(copy)
    assert {image for image in before if before[image] != after[image]} == images


def test_missing_are_those_that_are_not_in_the_storage(copy: Path) -> None:
    """Here none is; what is there is left out, see the test of the demo's record."""
    done = build(copy, "--missing", "operator", "runtime-cpu")

    assert dict(line.split("=") for line in done.stdout.splitlines()) == {
        image: tag for image, tag in tags(copy).items() if image != "runtime"
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["operater"], "there is no image 'operater': use operator, runtime or runtime-cpu"),
        ([], "name what to build: operator, runtime or runtime-cpu"),
        (["--push"], "--push needs a registry, for example --push localhost:5000"),
        (["--fast", "operator"], "there is no option --fast: see the head of images/build"),
    ],
)
def test_a_wrong_call_is_refused_in_one_sentence(arguments: list[str], message: str) -> None:
    done = build(ROOT, *arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == f"images: {message}\n"
