"""Random specs on random clusters, valid and invalid: nothing crashes, everything has its reason.

500 of them with every run, 10,000 with the long tests.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Final

import pytest
from tests.support.builders import Cluster
from tests.support.manifests import requested_gpus
from tests.support.random_clusters import random_cluster

from kindling_operator.model.conditions import MESSAGE_BYTES, ConditionType, Reason
from kindling_operator.model.conditions_table import REASONS
from kindling_operator.model.layout import Layout
from kindling_operator.model.names import Key
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.plan import Decision, EnginePlan
from kindling_operator.plan.better import layout_of
from kindling_operator.plan.candidate import Candidate
from kindling_operator.plan.devices import gpu_class
from kindling_operator.plan.rules import judge_option
from kindling_operator.plan.subject import subject_of

FEW: Final = range(500)
MANY: Final = range(500, 10_000)
BATCHES: Final = [range(start, start + 500) for start in MANY[::500]]


def well_said(decision: Decision) -> None:
    """Every verdict is one of the table's, in one sentence."""
    assert decision.verdicts[0].condition is ConditionType.ACCEPTED
    for verdict in decision.verdicts:
        assert verdict.condition in REASONS[verdict.reason].on
        assert verdict.message.endswith(".")
        assert len(verdict.message.encode()) <= MESSAGE_BYTES


def follows_the_rules(found: Cluster, key: Key, plan: EnginePlan) -> None:
    """The rules do not refuse what was chosen, and its nodes exist and are large enough."""
    model = found.models[key]
    assert isinstance(model, ParsedModel)
    subject = subject_of(model, found.environment)
    assert subject is not None
    layout, gpu = layout_of(plan), plan.gpu
    if gpu is None:
        assert layout == Layout()
        return
    assert layout.gpus == gpu.count * gpu.nodes
    assert (plan.group is None) is (layout.nodes == 1)
    (checkpoint,) = (c for c in subject.architecture.checkpoints if c.name == plan.checkpoint)
    classes = {
        known
        for node in found.nodes
        if (known := gpu_class(node)) is not None and known.product == gpu.product
    }
    assert any(
        judge_option(Candidate(subject, checkpoint, known, layout, plan.draft_tokens)) is None
        for known in classes
    )
    assert sum(1 for node in found.nodes if node.gpus >= gpu.count) >= gpu.nodes
    placement = model.spec.placement
    pins = placement.parallelism if placement is not None else None
    if pins is not None:
        assert pins.tensor in (None, layout.tensor)
        assert pins.pipeline in (None, layout.pipeline)
        assert pins.data in (None, layout.data)
        assert pins.expert in (None, layout.expert)
    if placement is not None and placement.max_gpus_per_replica is not None:
        assert layout.gpus <= placement.max_gpus_per_replica


def judged(seed: int) -> Counter[Reason]:
    found = random_cluster(seed)
    reasons: Counter[Reason] = Counter()
    for key, model in found.models.items():
        decision = found.decide(key)
        manifests = found.manifests(key)
        well_said(decision)
        reasons.update([decision.verdicts[0].reason])
        waiting = decision.verdict(ConditionType.SCHEDULED)
        if decision.current is None:
            assert manifests == ()
            assert decision.refused is not None or waiting is not None
            continue
        plan = decision.current.plan
        assert isinstance(model, ParsedModel)
        follows_the_rules(found, key, plan)
        gpus = layout_of(plan).gpus if plan.gpu is not None else 0
        # Of replicas that are groups of pods only those are made that have room.
        made = sum(
            len(target.groups) if plan.group is not None else target.replicas
            for target in decision.targets
        )
        assert requested_gpus(manifests) == gpus * made
        assert made <= model.spec.replicas
    return reasons


@pytest.mark.timeout(300)
def test_nothing_crashes_and_everything_has_its_reason() -> None:
    reasons = sum(map(judged, FEW), Counter())

    assert reasons[Reason.SPEC_ACCEPTED] > 50
    assert {
        Reason.NO_SUPPORTED_GPU,
        Reason.WEIGHTS_DO_NOT_FIT,
        Reason.CONTEXT_DOES_NOT_FIT,
        Reason.UNSUPPORTED_PARALLELISM,
        Reason.BROKEN_COMBINATION,
        Reason.INVALID_SPEC,
        Reason.INVALID_ARCHITECTURE,
        Reason.FORBIDDEN_ARGUMENT,
        Reason.NOT_YET_SUPPORTED,
    } <= set(reasons)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", BATCHES, ids=lambda seeds: f"from {seeds.start}")
def test_nothing_crashes_in_ten_thousand(seeds: range) -> None:
    assert sum(map(judged, seeds), Counter()).total() >= len(seeds)


@pytest.mark.parametrize("seed", range(0, 200, 4))
def test_no_order_of_nodes_or_models_changes_a_decision(seed: int) -> None:
    found = random_cluster(seed)
    turned = random_cluster(seed)
    turned.nodes = tuple(reversed(turned.nodes))
    turned.pods = tuple(reversed(turned.pods))
    turned.models = dict(reversed(turned.models.items()))

    for key in found.models:
        assert repr(found.decide(key)) == repr(turned.decide(key))


@pytest.mark.parametrize(("seed", "percent"), [*product(range(0, 300, 6), (5, 100))])
def test_more_memory_makes_nothing_impossible(seed: int, percent: int) -> None:
    """Of the GPUs and of the hosts, of all nodes alike."""
    found = random_cluster(seed)
    before = {key: found.decide(key) for key in found.models}
    found.nodes = tuple(
        replace(
            node,
            memory=node.memory * (100 + percent) // 100,
            gpu_memory=node.gpu_memory * (100 + percent) // 100,
        )
        for node in found.nodes
    )

    for key, decision in before.items():
        if decision.refused is None:
            assert found.decide(key).refused is None
