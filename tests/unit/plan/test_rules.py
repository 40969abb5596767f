"""The book of rules: each refuses its case in one sentence, and is missed when it is gone."""

from dataclasses import replace
from typing import Final

import pytest
from msgspec import structs
from tests.support.builders import environment
from tests.unit.plan.rule_cases import (
    B200,
    CASES,
    CUDA,
    DIGEST,
    GB200,
    H200,
    Case,
    candidate,
    with_facts,
)

from kindling_operator.catalog import runtimes
from kindling_operator.model.architecture import CheckpointName, Device
from kindling_operator.model.layout import Layout
from kindling_operator.model.objects import GpuShare
from kindling_operator.model.runtime import RuntimeFacts
from kindling_operator.plan import rules
from kindling_operator.plan.candidate import Candidate

EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.model}")


@EACH
def test_refuses_in_one_sentence(case: Case) -> None:
    found = rules.judge_option(case.candidate)

    assert found is not None
    assert (found.reason, found.message) == (case.reason, case.message)


@EACH
def test_is_missed_when_it_is_gone(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = tuple(rule for rule in rules.OPTION_RULES if rule.__name__ != case.rule)
    monkeypatch.setattr(rules, "OPTION_RULES", rest)

    found = rules.judge_option(case.candidate)

    assert found is None or found.message != case.message


def test_every_rule_has_a_case_and_a_source() -> None:
    assert {rule.__name__ for rule in rules.OPTION_RULES} == {case.rule for case in CASES}
    assert all("Source: " in (rule.__doc__ or "") for rule in rules.OPTION_RULES)


GOOD: Final = {
    "Flint on one H200": candidate("flint"),
    "Flint on two H200": candidate("flint", layout=Layout(tensor=2)),
    "Flint NVFP4": candidate("flint", checkpoint=CheckpointName.NVFP4),
    "Flint with a tier": candidate("flint", cache={"hostMemory": "64Gi"}),
    "a slice of one GPU": candidate("flint", gpu=replace(H200, share=GpuShare.SLICE)),
    "a node that does not tell its driver": candidate("flint", gpu=replace(H200, driver=0)),
    "Inkling in one node": candidate("inkling", gpu=B200, layout=Layout(tensor=8), draft=8),
    "Inkling on arm64": candidate("inkling", gpu=GB200, layout=Layout(tensor=4)),
    "Inkling in stages": candidate("inkling", layout=Layout(tensor=8, pipeline=2, nodes=2)),
    "the public recipe": candidate(
        "inkling", layout=Layout(tensor=8, data=2, expert=True, nodes=2), draft=1
    ),
    "a tier for each data rank": candidate(
        "inkling",
        layout=Layout(tensor=8, data=2, expert=True, nodes=2),
        cache={"hostMemory": "200Gi"},
    ),
    "no tier over nodes": candidate(
        "inkling",
        layout=Layout(tensor=8, pipeline=2, nodes=2),
        cache={"hostMemory": 0},
    ),
    "a pinned checkpoint": candidate(
        "inkling",
        checkpoint=CheckpointName.NVFP4,
        layout=Layout(tensor=8),
        model={"checkpoint": "NVFP4"},
    ),
}


@pytest.mark.parametrize("good", GOOD.values(), ids=GOOD.keys())
def test_says_nothing_of_what_works(good: Candidate) -> None:
    assert rules.judge_option(good) is None


def test_what_nobody_verified_is_told_of_what_is_insisted_on() -> None:
    adapted = candidate(
        "inkling",
        gpu=B200,
        layout=Layout(tensor=8),
        serving={"adapters": [{"name": "a", "uri": "pvc://weights/a"}]},
        runtime={"image": f"mirror.test/vllm@{DIGEST}"},
    )

    assert rules.unverified(adapted) == (
        "vLLM has LoRA for Inkling, and nobody has run it here; nobody has described"
        " spec.runtime.image by its digest, so it is judged as this release's own image with vLLM"
        " 0.33.0"
    )
    assert rules.unverified(candidate("flint")) == ""


def test_a_described_image_is_judged_by_its_own_facts() -> None:
    described: RuntimeFacts = structs.replace(
        CUDA, name="old", digests=(DIGEST,), packages=(), vllm="0.32.1"
    )
    installed = environment(runtimes=runtimes.load_all([described]))
    found = candidate("flint", installed=installed, runtime={"image": f"mirror.test/vllm@{DIGEST}"})

    refused = rules.judge_option(found)

    assert rules.unverified(found) == ""
    assert refused is not None
    assert refused.message.startswith("The runtime image old (vLLM 0.32.1) has no flashinfer-cubin")


def test_an_image_that_nobody_described_may_be_built_for_any_cpu() -> None:
    installed = with_facts(cpu_architectures=("amd64",))
    own = {"image": f"mirror.test/vllm@{DIGEST}"}

    assert rules.judge_option(candidate("flint", gpu=GB200, installed=installed)) is not None
    assert (
        rules.judge_option(candidate("flint", gpu=GB200, installed=installed, runtime=own)) is None
    )
    assert rules.unverified_on(candidate("flint", runtime=own).subject, Device.GPU)


def test_a_model_that_runs_nowhere_is_refused_all_the_same() -> None:
    models = tuple(
        structs.replace(m, capabilities=tuple(c for c in m.capabilities if c.status == "Broken"))
        for m in CUDA.models
    )

    refused = rules.judge_option(candidate("flint", installed=with_facts(models=models)))

    assert refused is not None
    assert refused.message.endswith(
        "for this GPU has both sinks and FlashInfer: use another image."
    )


def test_an_architecture_that_divides_by_nothing_is_refused_all_the_same() -> None:
    refused = rules.judge_option(candidate("odd", layout=Layout(tensor=2)))

    assert refused is not None
    assert refused.message == (
        "TP2 does not divide the MLP width 511: correct the architecture, or leave it out."
    )
