"""What models share of a search although they differ in what it or its rules do not look at."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.builders import gpu_node
from tests.support.candidates import subject
from tests.unit.plan.rule_cases import CASES, Case

from kindling_operator.plan.fleet import fleet_of
from kindling_operator.plan.question import searched, undemanding
from kindling_operator.plan.rules import judge_option, unverified
from kindling_operator.plan.search import Search, search

UNSEEN: dict[str, dict[str, Any]] = {
    "a name": {"serving": {"servedName": "other"}},
    "weights elsewhere": {"model": {"weights": {"uri": "pvc://weights/other"}}},
    "arguments": {"serving": {"extraArgs": ["--seed=1"]}},
    "media": {"serving": {"mediaDomains": ["a.example.com"]}},
    "priority": {"placement": {"priorityClassName": "high"}},
    "a secret": {"runtime": {"imagePullSecrets": [{"name": "pull"}]}},
    "replicas": {"replicas": 7},
}
AMOUNTS: dict[str, dict[str, Any]] = {
    "context": {"serving": {"contextLength": 4096}},
    "requests": {"serving": {"concurrency": 30}},
    "memory of a pod": {"runtime": {"resources": {"memory": "8Gi"}}},
    "encoded media": {"cache": {"encoderMemory": "8Gi"}},
    "memory of a GPU": {"placement": {"gpu": {"minMemory": "100Gi"}}},
    "a selector": {"placement": {"nodeSelector": {"pool": "gpu"}}},
    "a toleration": {"placement": {"tolerations": [{"operator": "Exists"}]}},
}
B200, H200 = gpu_node("b200", "NVIDIA-B200"), gpu_node("h200")
POOL = replace(B200, name="pool", labels={**B200.labels, "pool": "gpu"})


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.model}")
def test_no_rule_looks_at_amounts_or_at_what_is_not_searched(case: Case) -> None:
    plain = undemanding(searched(case.candidate.subject))
    found = judge_option(replace(case.candidate, subject=plain))

    assert found is not None
    assert (found.reason, found.message) == (case.reason, case.message)
    assert unverified(replace(case.candidate, subject=plain)) == unverified(case.candidate)


@pytest.mark.parametrize("fields", UNSEEN.values(), ids=UNSEEN.keys())
def test_models_that_differ_in_what_nobody_looks_at_share_a_search(fields: dict[str, Any]) -> None:
    fleet = fleet_of([H200])

    assert search(subject("flint", **fields), fleet) is search(subject("flint"), fleet)


@pytest.mark.parametrize("fields", AMOUNTS.values(), ids=AMOUNTS.keys())
def test_models_that_differ_in_amounts_share_their_ways(fields: dict[str, Any]) -> None:
    fleet = fleet_of([POOL])
    plain, other = search(subject("flint"), fleet), search(subject("flint", **fields), fleet)

    assert plain is not other
    assert {option.way for option in other.options} <= {option.way for option in plain.options}
    assert other.options


@pytest.mark.parametrize("fields", AMOUNTS.values(), ids=AMOUNTS.keys())
@pytest.mark.parametrize("name", ["flint", "inkling"])
def test_an_answer_does_not_depend_on_who_asked_before(name: str, fields: dict[str, Any]) -> None:
    nodes = [H200, POOL, gpu_node("lab", "NVIDIA-L40S")]
    shared = fleet_of(nodes)
    asked = [subject(name), subject(name, **fields)]
    before = [told(search(each, shared)) for each in asked]

    assert before == [told(search(each, fleet_of(nodes))) for each in reversed(asked)][::-1]


def told(found: Search) -> list[Any]:
    """All that anybody reads of it."""
    return [
        *((o.name, o.sizing, o.speed, o.draft, o.token_nanoseconds, o.pool) for o in found.options),
        *((r.name, r.reason, r.message, r.short) for r in found.rejected),
    ]
