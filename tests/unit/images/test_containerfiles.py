"""What must hold in every Containerfile; tests/images executes them."""

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
IMAGES: Final = ("operator", "runtime", "runtime-cpu")
USER: Final = "65532:65532"
LABELS: Final = ("source", "version", "licenses", "title", "description")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, its continuation lines joined."""

    word: str
    rest: str


def instructions(image: str) -> list[Instruction]:
    text = (ROOT / "images" / image / "Containerfile").read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    found = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [Instruction(word, rest.strip()) for word, _, rest in found]


def only(image: str, word: str) -> list[str]:
    return [each.rest for each in instructions(image) if each.word == word]


every_image = pytest.mark.parametrize("image", IMAGES)


@every_image
def test_base_is_an_argument_so_that_one_file_serves_with_and_without_a_registry(
    image: str,
) -> None:
    assert [(each.word, each.rest) for each in instructions(image)[:2]] == [
        ("ARG", "BASE"),
        ("FROM", "${BASE}"),
    ]
    assert only(image, "FROM") == ["${BASE}"]


@every_image
def test_ends_as_a_user_without_rights(image: str) -> None:
    assert only(image, "USER") == [USER]
    after = [each.word for each in instructions(image)]
    assert not {"RUN", "COPY"} & set(after[after.index("USER") :])


@every_image
def test_entry_point_needs_no_shell(image: str) -> None:
    (entry,) = only(image, "ENTRYPOINT")
    assert isinstance(json.loads(entry), list)
    assert not only(image, "CMD")


@every_image
def test_python_looks_for_modules_in_its_own_folders_only(image: str) -> None:
    environment = " ".join(only(image, "ENV"))
    assert "PYTHONSAFEPATH=1" in environment
    assert "PYTHONDONTWRITEBYTECODE=1" in environment  # the root file system is read-only


@every_image
def test_labels(image: str) -> None:
    (labels,) = only(image, "LABEL")
    for label in LABELS:
        assert re.search(rf'org\.opencontainers\.image\.{label}="[^"]+"', labels), label


def test_cpu_image_says_what_it_is_for() -> None:
    (labels,) = only("runtime-cpu", "LABEL")
    assert "tests and laptops only" in labels
    assert "third-party build" in labels


@every_image
def test_a_lock_is_copied_before_the_layer_that_is_made_from_it(image: str) -> None:
    found = instructions(image)
    steps = [number for number, each in enumerate(found) if "install-wheels " in each.rest]
    installed = [number for number in steps if found[number].word == "RUN"]
    assert installed
    for number in installed:
        lock = found[number].rest.rpartition(" ")[2]
        before = [each.rest for each in found[:number] if each.word == "COPY"]
        assert any(copy.startswith(f"--from=lock {lock} ") for copy in before), lock
        assert any("images/steps/install-wheels" in copy for copy in before)


@every_image
def test_every_lock_of_the_folder_is_installed(image: str) -> None:
    installed = {
        rest.rpartition(" ")[2] for rest in only(image, "RUN") if "install-wheels " in rest
    }
    assert installed == {path.name for path in (ROOT / "images" / image).glob("*.lock")}


@every_image
def test_our_code_comes_after_everything_that_is_large(image: str) -> None:
    found = instructions(image)
    code = [n for n, each in enumerate(found) if each.word == "COPY" and "/kindling_" in each.rest]
    large = [
        n for n, each in enumerate(found) if each.word == "RUN" and "compileall" not in each.rest
    ]
    assert min(code) > max(large)


@pytest.mark.parametrize(
    ("image", "packages"),
    [
        ("operator", {"kindling_operator", "kindling_runtime"}),
        ("runtime", {"kindling_runtime"}),
        ("runtime-cpu", {"kindling_runtime"}),
    ],
)
def test_holds_and_compiles_its_own_packages(image: str, packages: set[str]) -> None:
    copied = {Path(rest.split()[0]).name for rest in only(image, "COPY") if "/kindling_" in rest}
    (compiled,) = [rest for rest in only(image, "RUN") if "compileall" in rest]
    assert copied == packages
    assert {Path(word).name for word in compiled.split() if "/kindling_" in word} == packages
    assert "--invalidation-mode unchecked-hash" in compiled


@every_image
def test_command_and_entry_points_are_those_of_the_distribution(image: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (step,) = [rest for rest in only(image, "RUN") if "add-package kindling " in rest]
    words = step.partition("add-package kindling ")[2].split()
    _, command, module, *entries = words
    assert project["scripts"][command] == f"{module}:main"

    given = dict(zip(entries[::2], entries[1::2], strict=True))
    declared = {
        group: f"{name}={value}"
        for group, one in project["entry-points"].items()
        for name, value in one.items()
    }
    # The operator's image has no vLLM that would look for them.
    assert given == ({} if image == "operator" else declared)


def test_cuda_image_asks_for_the_driver_but_for_no_device() -> None:
    environment = " ".join(only("runtime", "ENV"))
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in environment
    assert "NVIDIA_VISIBLE_DEVICES" not in environment
