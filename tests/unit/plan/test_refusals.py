"""Specs that are refused: each with its reason and the exact sentence that the user reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.builders import (
    Cluster,
    catalog_spec,
    cpu_node,
    environment,
    gpu_node,
    tiny_architecture,
    tiny_spec,
)
from tests.support.manifests import merged
from tests.support.spec_fields import REFUSED

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.plan import architecture, checks


@dataclass(frozen=True, slots=True)
class Case:
    """A spec, and why it is refused on a cluster of one H200 node and a laptop."""

    spec: Mapping[str, Any]
    reason: Reason
    message: str


def custom(**changes: Any) -> dict[str, Any]:
    return tiny_spec(tiny_architecture(**changes))


CONV = {"name": "conv", "kind": "Conv", "layers": 5, "kvHeads": 2, "headSize": 64, "window": 4}
FULL = {"name": "full_attention", "kind": "Full", "layers": 4, "kvHeads": 2, "headSize": 64}

CASES = {
    "a checkpoint that the model does not have": Case(
        tiny_spec() | {"model": tiny_spec()["model"] | {"checkpoint": "NVFP4"}},
        Reason.UNSUPPORTED_CHECKPOINT,
        "spec.model.checkpoint NVFP4 does not exist for custom, which has BF16: use BF16 or Auto.",
    ),
    "a context beyond the model's own": Case(
        catalog_spec("flint", serving={"contextLength": 524_288}),
        Reason.CONTEXT_TOO_LONG,
        "spec.serving.contextLength 524288 exceeds the 262144 tokens that flint was made for:"
        " lower it to 262144.",
    ),
    "a modality that the model does not understand": Case(
        tiny_spec(serving={"modalities": ["Text", "Audio"]}),
        Reason.INVALID_SPEC,
        "spec.serving.modalities has Audio, which custom does not understand: use Text.",
    ),
    "modalities without text": Case(
        catalog_spec("inkling", serving={"modalities": ["Image"]}),
        Reason.INVALID_SPEC,
        "spec.serving.modalities Image has no Text, which every request contains: add it.",
    ),
    "GPU wishes for a CPU model": Case(
        tiny_spec(placement={"gpu": {"products": ["NVIDIA-H200"]}}),
        Reason.NO_SUPPORTED_GPU,
        "spec.placement.gpu is given and custom runs on CPU only: remove it, or add GPU to"
        " spec.model.custom.devices.",
    ),
    "several ranks of a model that runs on CPU": Case(
        tiny_spec(placement={"parallelism": {"tensor": 2}}),
        Reason.UNSUPPORTED_PARALLELISM,
        "spec.placement.parallelism asks for several GPUs and custom runs on CPU only: remove it,"
        " or add GPU to spec.model.custom.devices.",
    ),
    "drafts of a model that runs on CPU": Case(
        tiny_spec(serving={"speculation": {"mode": "Fixed", "tokens": 2}}),
        Reason.INVALID_SPEC,
        "spec.serving.speculation.tokens is 2 and custom runs on CPU only, where nothing is"
        " drafted: set spec.serving.speculation.mode Disabled.",
    ),
    "a drain of more than a week": Case(
        tiny_spec(rollout={"drainDeadline": "200h"}),
        Reason.INVALID_SPEC,
        "spec.rollout.drainDeadline 200h exceeds 168h, the longest that a pod waits: lower it.",
    ),
    "a repository without its name": Case(
        merged(tiny_spec(), {"model": {"weights": {"uri": "hf://tiny"}}}),
        Reason.INVALID_SPEC,
        "spec.model.weights.uri hf://tiny names no repository: write hf://ORG/NAME.",
    ),
    "a token for a store that asks for none": Case(
        merged(
            tiny_spec(),
            {
                "model": {
                    "weights": {
                        "uri": "s3://weights/tiny",
                        "tokenSecretRef": {"name": "hf", "key": "token"},
                    }
                }
            },
        ),
        Reason.INVALID_SPEC,
        "spec.model.weights.tokenSecretRef is for hf:// and spec.model.weights.uri is"
        " s3://weights/tiny: remove it.",
    ),
    "no weights, and a model whose repository nobody knows": Case(
        {"model": {"name": "custom", "custom": tiny_architecture()}},
        Reason.INVALID_SPEC,
        "spec.model.weights.uri is not given and no repository of custom is known: write"
        " hf://ORG/NAME, s3://BUCKET/PREFIX or pvc://CLAIM/PATH.",
    ),
    "an argument that the plan owns": Case(
        tiny_spec(serving={"extraArgs": ["--max-model-len=99"]}),
        Reason.FORBIDDEN_ARGUMENT,
        "spec.serving.extraArgs: --max-model-len is refused: use spec.serving.contextLength"
        " instead.",
    ),
    "an abbreviation of it": Case(
        tiny_spec(serving={"extraArgs": ["--seed=1", "--max-model=99"]}),
        Reason.FORBIDDEN_ARGUMENT,
        "spec.serving.extraArgs: --max-model (read as --max-model-len) is refused: use"
        " spec.serving.contextLength instead.",
    ),
    "an argument that vLLM does not have": Case(
        tiny_spec(serving={"extraArgs": ["--seeed=1"]}),
        Reason.FORBIDDEN_ARGUMENT,
        "spec.serving.extraArgs: --seeed is no option of vLLM 0.32.0, which the runtime image cpu"
        " has: use --seed if that is meant, or remove it.",
    ),
    "an argument that breaks the model": Case(
        catalog_spec("inkling", serving={"extraArgs": ["--block-size=32"]}),
        Reason.FORBIDDEN_ARGUMENT,
        "spec.serving.extraArgs: --block-size is refused: any block size but 16 lets the"
        " short convolutions read wrong memory without an error, remove it.",
    ),
    "a parser that the catalog knows": Case(
        catalog_spec("flint", serving={"extraArgs": ["--tool-call-parser=hermes"]}),
        Reason.FORBIDDEN_ARGUMENT,
        "spec.serving.extraArgs: --tool-call-parser is refused: the plan sets it, remove it.",
    ),
    "more convolutions than layers": Case(
        custom(attention=[FULL, CONV]),
        Reason.INVALID_ARCHITECTURE,
        "spec.model.custom: the Conv groups have 5 layers and the model has 4: count each layer"
        " once.",
    ),
    "expert weights without experts": Case(
        custom(checkpoints=[{"name": "BF16", "bytes": 6_000_000, "expertBytes": 5}]),
        Reason.INVALID_ARCHITECTURE,
        "spec.model.custom: checkpoint BF16 has expertBytes 5 and the model has no `experts`:"
        " describe them or remove expertBytes.",
    ),
    "a checkpoint size in the wrong unit": Case(
        custom(checkpoints=[{"name": "BF16", "bytes": 6}]),
        Reason.INVALID_ARCHITECTURE,
        "spec.model.custom: checkpoint BF16 has 6 B and the shapes need at least 2.8 MiB: give"
        " `bytes` in bytes and check the shapes against config.json.",
    ),
    "towers that are not in the checkpoint": Case(
        custom(modalities=["Text", "Image"], towers=[{"modality": "Image", "bytes": 8_000_000}]),
        Reason.INVALID_ARCHITECTURE,
        "spec.model.custom: checkpoint BF16 has 5.5 MiB and its towers and routed experts 7.6 MiB:"
        " count them in `bytes`.",
    ),
    "a tower for what no request contains": Case(
        custom(towers=[{"modality": "Audio", "bytes": 1000}]),
        Reason.INVALID_ARCHITECTURE,
        "spec.model.custom: towers has one for Audio and modalities has none: add Audio to"
        " modalities or remove the tower.",
    ),
    "a layer that attends in two ways": Case(
        custom(
            attention=[
                {**FULL, "layers": 2, "positions": [0, 1]},
                {**FULL, "name": "other", "layers": 2, "positions": [1, 2]},
            ]
        ),
        Reason.INVALID_ARCHITECTURE,
        "spec.model.custom: layer 1 is in `positions` of two groups: name each layer once.",
    ),
    "a model without text": Case(
        custom(modalities=["Image"]),
        Reason.INVALID_ARCHITECTURE,
        "spec.model.custom: modalities has no Text, which every request contains: add it.",
    ),
    "a model class that vLLM dropped": Case(
        custom(architecture="TeleChatForCausalLM"),
        Reason.INVALID_ARCHITECTURE,
        "spec.model.custom.architecture TeleChatForCausalLM was removed from vLLM after 0.25.0, and"
        " the runtime image has 0.32.0: describe an image with vLLM 0.25.0 under the chart's"
        " `runtimes` and name it in spec.runtime.image, or serve another model.",
    ),
    "a model class that generates nothing": Case(
        custom(architecture="BertModel"),
        Reason.INVALID_ARCHITECTURE,
        "spec.model.custom.architecture BertModel gives vectors, scores or labels and generates no"
        " text in vLLM 0.32.0 of the runtime image cpu: describe an image that generates with it"
        " under the chart's `runtimes` and name it in spec.runtime.image.",
    ),
    "a checkpoint for a later transformers": Case(
        custom(checkpoints=[{"name": "BF16", "bytes": 5_781_504, "transformers": ">=5.20"}]),
        Reason.BROKEN_COMBINATION,
        "custom BF16 needs transformers >=5.20 and the runtime image cpu (vLLM 0.32.0) has"
        " >=5.16.1,<5.20.0: describe an image that has it under the chart's `runtimes` and name it"
        " in spec.runtime.image, or use another checkpoint.",
    ),
    "hosts to fetch media from, for a model of text": Case(
        catalog_spec("flint", serving={"mediaDomains": ["assets.example.com"]}),
        Reason.INVALID_SPEC,
        "spec.serving.mediaDomains is given and flint takes Text only here: remove it, or add Image"
        " or Audio to spec.serving.modalities.",
    ),
    "the Rust frontend where the image has none": Case(
        tiny_spec(serving={"frontend": "Rust"}),
        Reason.BROKEN_COMBINATION,
        "spec.serving.frontend Rust needs vllm-rs, which the runtime image cpu (vLLM 0.32.0) does"
        " not have: use Python.",
    ),
    "the Rust frontend with media": Case(
        catalog_spec("inkling", serving={"frontend": "Rust"}),
        Reason.INVALID_SPEC,
        "spec.serving.frontend Rust cannot limit which hosts Image, Audio is fetched from: use"
        " Python, or set spec.serving.modalities to Text.",
    ),
    "an argument that the Rust frontend does not know": Case(
        catalog_spec(
            "flint", serving={"frontend": "Rust", "extraArgs": ["--max-num-queued-reqs=9"]}
        ),
        Reason.FORBIDDEN_ARGUMENT,
        "spec.serving.extraArgs: --max-num-queued-reqs ends the Rust frontend, which does not"
        " implement it: remove it, or set spec.serving.frontend Python.",
    ),
    "adapters of a model without LoRA": Case(
        catalog_spec("flint", serving={"adapters": [{"name": "a", "uri": "pvc://weights/a"}]}),
        Reason.BROKEN_COMBINATION,
        "spec.serving.adapters is given and the runtime image is not known to serve adapters of"
        " Flint: remove it and serve the base model.",
    ),
    "an adapter that must be downloaded": Case(
        catalog_spec("inkling", serving={"adapters": [{"name": "a", "uri": "s3://bucket/a"}]}),
        Reason.NOT_YET_SUPPORTED,
        "spec.serving.adapters a: s3://bucket/a is not downloaded by this version: copy the adapter"
        " beside the weights and write pvc://weights/PATH or file:///PATH.",
    ),
    "an adapter in a claim of its own": Case(
        catalog_spec("inkling", serving={"adapters": [{"name": "a", "uri": "pvc://other/a"}]}),
        Reason.NOT_YET_SUPPORTED,
        "spec.serving.adapters a: pvc://other/a is not supported by this version: copy the adapter"
        " beside the weights and write pvc://weights/PATH or file:///PATH.",
    ),
    "an adapter that hides the model": Case(
        catalog_spec("inkling", serving={"adapters": [{"name": "tiny", "uri": "file:///a"}]}),
        Reason.INVALID_SPEC,
        "spec.serving.adapters tiny has the name that requests select the base model by: give it"
        " another name.",
    ),
    "a tier in host memory on CPU": Case(
        tiny_spec(cache={"hostMemory": "8Gi"}),
        Reason.INVALID_SPEC,
        "spec.cache.hostMemory 8Gi is given and custom runs on CPU only, where the KV cache is in"
        " host memory already: remove it.",
    ),
    "a cache of encoded media for a model of text": Case(
        catalog_spec("flint", cache={"encoderMemory": "8Gi"}),
        Reason.INVALID_SPEC,
        "spec.cache.encoderMemory 8Gi is given and flint encodes neither images nor audio on a GPU"
        " here: remove it.",
    ),
    "weights that no GPU holds": Case(
        catalog_spec("inkling", model={"checkpoint": "BF16"}),
        Reason.WEIGHTS_DO_NOT_FIT,
        "Inkling BF16 needs 225.9 GiB on each of 8 GPUs (TP8), 223.0 GiB of it weights, and"
        " NVIDIA-H200 has 129.2 GiB usable, short by 96.8 GiB: 2 nodes of 8 hold it, add 1 node or"
        " use GPUs with more memory.",
    ),
    "a context that no GPU holds so often": Case(
        catalog_spec(
            "flint",
            model={"checkpoint": "BF16"},
            serving={"contextLength": 262_144, "concurrency": 8},
            placement={"maxGpusPerReplica": 1},
        ),
        Reason.CONTEXT_DOES_NOT_FIT,
        "A context of 262144 tokens at concurrency 8 needs 59.0 GiB of KV cache on one GPU and"
        " 53.4 GiB are left on NVIDIA-H200, short by 5.5 GiB: lower contextLength to 236272 or"
        " concurrency to 7, or raise spec.placement.maxGpusPerReplica from 1 to 2.",
    ),
}


def cluster() -> Cluster:
    return Cluster(nodes=(gpu_node("gpu-0"), cpu_node()))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_refused_with_one_sentence_and_nothing_is_created(case: Case) -> None:
    found = cluster().apply(case.spec)
    decision = found.decide()

    assert decision.refused is not None
    assert (decision.refused.reason, decision.refused.message) == (case.reason, case.message)
    assert (decision.targets, found.manifests()) == ((), ())


def test_a_model_that_the_catalog_lost_is_unknown() -> None:
    found = Cluster(environment=environment(catalog={})).apply(catalog_spec("flint")).decide()

    assert found.refused is not None
    assert found.refused.reason is Reason.UNKNOWN_MODEL
    assert found.refused.message == (
        "spec.model.name 'flint' is not in this operator's catalog, which has custom: upgrade the"
        " operator or choose one of these."
    )


def test_an_unreadable_spec_is_refused_in_its_own_words() -> None:
    found = Cluster().apply({"model": {"name": "flint"}, "replicas": -1}).decide()

    assert found.refused is not None
    assert found.refused.reason is Reason.INVALID_SPEC
    assert found.untouched


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda check: check.__name__)
def test_every_check_is_needed(check: checks.Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a spec that must be refused is planned, or refused in other words."""
    rest = tuple(other for other in checks.CHECKS if other is not check)
    monkeypatch.setattr(checks, "CHECKS", rest)

    def as_it_should_be(case: Case) -> bool:
        refused = cluster().apply(case.spec).decide().refused
        return refused is not None and refused.message == case.message

    unsupported = cluster().apply(merged(tiny_spec(), REFUSED["spec.scaling.maxReplicas"])).decide()
    assert not all(map(as_it_should_be, CASES.values())) or unsupported.refused is None


@pytest.mark.parametrize(
    "check", architecture.ARCHITECTURE_CHECKS, ids=lambda check: check.__name__
)
def test_every_check_of_an_architecture_is_needed(
    check: architecture.ArchitectureCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = tuple(other for other in architecture.ARCHITECTURE_CHECKS if other is not check)
    monkeypatch.setattr(architecture, "ARCHITECTURE_CHECKS", rest)
    wrong = [case for case in CASES.values() if case.reason is Reason.INVALID_ARCHITECTURE]

    refused = [cluster().apply(case.spec).decide().refused for case in wrong]

    assert not all(found and found.reason is Reason.INVALID_ARCHITECTURE for found in refused)


def test_the_verdict_speaks_for_accepted_alone() -> None:
    found = cluster().apply(CASES["modalities without text"].spec).decide()

    assert [verdict.condition for verdict in found.verdicts] == [ConditionType.ACCEPTED]
