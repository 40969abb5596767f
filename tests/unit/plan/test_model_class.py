"""The model class of config.json: what vLLM cannot generate with is refused, what nobody measured
is said, each through `kindling plan`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.builders import catalog_spec, tiny_architecture, tiny_spec
from tests.support.planning import Said, kindling_plan, node
from tests.support.tinymodel.architectures import BLUEPRINTS
from tests.unit.cli.test_described_runtimes import DIGEST, GPU_IMAGE, LAPTOP

from kindling_operator import catalog
from kindling_operator.catalog import runtimes
from kindling_operator.model.runtime import EngineFacts

OWN: Final = {"image": f"mirror.test/own@{DIGEST}"}
DESCRIBE: Final = (
    "describe an image that generates with it under the chart's `runtimes` and name it in"
    " spec.runtime.image."
)


def on_gpu(folder: Path, name: str, *described: Mapping[str, Any], **fields: Any) -> Said:
    spec = tiny_spec(tiny_architecture(architecture=name, devices=["GPU"]), **fields)
    return kindling_plan(folder, spec, node("gpu-0"), runtimes=described)


def on_cpu(folder: Path, name: str, **fields: Any) -> Said:
    return kindling_plan(folder, tiny_spec(tiny_architecture(architecture=name), **fields), LAPTOP)


REFUSED: Final = {
    "a typing error": (
        "Qwen3ForCausualLM",
        "Qwen3ForCausualLM is not in vLLM 0.33.0 of the runtime image cuda: use Qwen3ForCausalLM,"
        " Qwen3VLForConditionalGeneration or Qwen3_5ForCausalLM if that is meant, or ",
    ),
    "another case": (
        "llamaForCausalLM",
        "llamaForCausalLM is not in vLLM 0.33.0 of the runtime image cuda: use LlamaForCausalLM,"
        " Llama4ForCausalLM or LlavaForConditionalGeneration if that is meant, or ",
    ),
    "a class like no other": (
        "FooForCausalLM",
        "FooForCausalLM is not in vLLM 0.33.0 of the runtime image cuda: ",
    ),
    "a classifier that vLLM would make of a model that generates": (
        "Qwen2MoeForSequenceClassification",
        "Qwen2MoeForSequenceClassification is not in vLLM 0.33.0 of the runtime image cuda: use"
        " Qwen2MoeForCausalLM, Qwen3MoeForCausalLM or Qwen3VLMoeForConditionalGeneration if that is"
        " meant, or ",
    ),
    "embeddings": (
        "BertModel",
        "BertModel gives vectors, scores or labels and generates no text in vLLM 0.33.0 of the"
        " runtime image cuda: ",
    ),
    "a classifier": (
        "BertForSequenceClassification",
        "BertForSequenceClassification gives vectors, scores or labels and generates no text in"
        " vLLM 0.33.0 of the runtime image cuda: ",
    ),
    "rewards": (
        "Qwen2ForRewardModel",
        "Qwen2ForRewardModel gives vectors, scores or labels and generates no text in vLLM 0.33.0"
        " of the runtime image cuda: use Qwen2ForCausalLM, Qwen2VLForConditionalGeneration or"
        " Qwen3ForCausalLM if that is meant, or ",
    ),
    "speech": (
        "WhisperForConditionalGeneration",
        "WhisperForConditionalGeneration transcribes speech and generates no text in vLLM 0.33.0 of"
        " the runtime image cuda: ",
    ),
    "a draft model": (
        "EagleLlamaForCausalLM",
        "EagleLlamaForCausalLM drafts for another model and generates no text in vLLM 0.33.0 of the"
        " runtime image cuda: ",
    ),
}


@pytest.mark.parametrize(("name", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_a_class_that_generates_nothing_is_refused(
    tmp_path: Path, name: str, sentence: str
) -> None:
    said = on_gpu(tmp_path, name)

    assert (said.code, said.reason) == (1, "InvalidArchitecture")
    assert said.message == f"spec.model.custom.architecture {sentence}{DESCRIBE}"


def test_the_cpu_image_is_judged_by_its_own_vllm(tmp_path: Path) -> None:
    said = on_cpu(tmp_path, "FlintForCausalLM")

    assert (said.code, said.reason) == (1, "InvalidArchitecture")
    assert said.message == (
        "spec.model.custom.architecture FlintForCausalLM is not in vLLM 0.32.0 of the runtime image"
        f" cpu: {DESCRIBE}"
    )


MEASURED_BY_NOBODY: Final = {
    "Qwen": ("Qwen3ForCausalLM", "nobody has measured Qwen3ForCausalLM on GPUs"),
    "Gemma": (
        "Gemma3ForConditionalGeneration",
        "nobody has measured Gemma3ForConditionalGeneration on GPUs",
    ),
    "Llama": ("LlamaForCausalLM", "nobody has measured LlamaForCausalLM on GPUs"),
    "another ending of a class that vLLM has": (
        "LlamaLMHeadModel",
        "nobody has measured LlamaLMHeadModel on GPUs",
    ),
    "Transformers' code": (
        "SolarOpenForCausalLM",
        "vLLM 0.33.0 runs SolarOpenForCausalLM in Transformers' code, which nobody has measured",
    ),
}


@pytest.mark.parametrize(
    ("name", "doubt"), MEASURED_BY_NOBODY.values(), ids=MEASURED_BY_NOBODY.keys()
)
def test_a_class_that_vllm_has_is_served_and_called_unverified(
    tmp_path: Path, name: str, doubt: str
) -> None:
    said = on_gpu(tmp_path, name)

    assert (said.code, said.reason) == (0, "Unverified")
    assert said.message == (
        f"1x NVIDIA-H200 in one node, BF16, TP1, 4096 ctx: accepted, but unverified: {doubt}."
    )
    assert said.manifests


def test_a_class_that_is_measured_is_accepted_without_a_word(tmp_path: Path) -> None:
    assert on_gpu(tmp_path, "FlintForCausalLM").reason == "SpecAccepted"
    assert on_cpu(tmp_path, "Qwen3ForCausalLM").reason == "SpecAccepted"


@pytest.mark.parametrize("name", ["FooForCausalLM", "BertModel", "TeleChatForCausalLM"])
def test_an_image_that_nobody_described_may_have_any_class(tmp_path: Path, name: str) -> None:
    gpu, cpu = on_gpu(tmp_path, name, runtime=OWN), on_cpu(tmp_path, name, runtime=OWN)

    assert (gpu.code, gpu.reason) == (cpu.code, cpu.reason) == (0, "Unverified")
    assert gpu.message.endswith(
        "by its digest, so it is judged as this release's own image with vLLM 0.33.0; vLLM 0.33.0"
        f" of that image generates no text with {name}."
    )
    assert cpu.message.endswith(f"; vLLM 0.32.0 of that image generates no text with {name}.")


def test_an_image_with_a_vllm_that_nobody_knows_may_have_any_class(tmp_path: Path) -> None:
    described = {**GPU_IMAGE, "vllm": "0.99.0"}

    said = on_gpu(tmp_path, "FooForCausalLM", described, runtime=OWN)

    assert (said.code, said.reason) == (0, "Unverified")
    assert said.message.endswith(
        "nobody has told whether vLLM 0.99.0 of the runtime image has FooForCausalLM."
    )


def test_a_described_image_has_the_classes_of_its_vllm(tmp_path: Path) -> None:
    older = {**GPU_IMAGE, "vllm": "0.32.0"}

    refused = on_gpu(tmp_path, "FooForCausalLM", older, runtime=OWN)
    flint = kindling_plan(
        tmp_path, catalog_spec("flint", runtime=OWN), node("gpu-0"), runtimes=[older]
    )

    assert refused.message == (
        "spec.model.custom.architecture FooForCausalLM is not in vLLM 0.32.0 of the runtime image"
        f" ours: {DESCRIBE}"
    )
    assert (flint.code, flint.reason) == (1, "BrokenCombination")
    assert flint.message == (
        "Flint's class FlintForCausalLM is not in vLLM 0.32.0 of the runtime image ours:"
        f" {DESCRIBE}"
    )


def test_a_described_image_may_have_classes_of_its_own(tmp_path: Path) -> None:
    runs = {"status": "Supported", "reason": "runs", "source": "measured"}
    named = {**GPU_IMAGE, "models": [{"architecture": "FooForCausalLM"}]}
    measured = {
        **GPU_IMAGE,
        "models": [{"architecture": "FooForCausalLM", "capabilities": [runs]}],
    }

    assert on_gpu(tmp_path, "FooForCausalLM", GPU_IMAGE, runtime=OWN).code == 1
    assert on_gpu(tmp_path, "FooForCausalLM", named, runtime=OWN).reason == "Unverified"
    assert on_gpu(tmp_path, "FooForCausalLM", measured, runtime=OWN).reason == "SpecAccepted"


def test_a_description_may_tell_what_its_vllm_knows(tmp_path: Path) -> None:
    """What images/describe_vllm.py prints in an image is the document that goes there."""
    known = {"classes": {"generates": ["FooForCausalLM"]}, "options": {}, "sources": {}}
    described = {**GPU_IMAGE, "vllm": "0.99.0", "engine": known}

    assert on_gpu(tmp_path, "FooForCausalLM", described, runtime=OWN).code == 0
    assert on_gpu(tmp_path, "Qwen3ForCausalLM", described, runtime=OWN).code == 1


def engine(image: str) -> EngineFacts:
    found = runtimes.load(image).engine
    assert found is not None
    return found


@pytest.mark.parametrize("image", runtimes.NAMES)
def test_a_class_does_one_thing(image: str) -> None:
    classes = engine(image).classes
    kinds = (
        classes.generates,
        classes.through_transformers,
        classes.transcribes,
        classes.pools,
        classes.drafts,
    )

    assert all(kinds)
    assert sum(map(len, kinds)) == len(frozenset().union(*kinds))
    assert frozenset().union(*kinds) & set(runtimes.load(image).removed) == set()


def test_the_models_of_this_release_are_among_those_that_generate() -> None:
    shipped = {entry.architecture.architecture for entry in catalog.load_all().values()}
    tiny = {str(each.config["architectures"][0]) for each in BLUEPRINTS.values()}

    assert shipped - engine("cuda").classes.generates == set()
    assert tiny - engine("cpu").classes.generates == set()
