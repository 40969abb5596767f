"""Properties of deciding and rendering, over random clusters and random specs."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.builders import (
    GIB,
    KEY,
    PRODUCTS,
    Cluster,
    catalog_spec,
    cpu_node,
    environment,
    foreign_pod,
    gpu_node,
    tainted,
    tiny_architecture,
    tiny_spec,
)
from tests.support.examples import examples
from tests.support.manifests import merged
from tests.support.spec_fields import CHANGES, REFUSED

from kindling_operator.model.conditions import MESSAGE_BYTES, ConditionType, Reason
from kindling_operator.model.conditions_table import REASONS
from kindling_operator.model.names import GPU_RESOURCE, Key
from kindling_operator.model.objects import ClaimView, NodeView, PodView
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.plan import Decision, EnginePlan, RevisionTarget, Verdict
from kindling_operator.plan import plan
from kindling_operator.plan.kv import bytes_needed, kv_budget, kv_layout
from kindling_operator.plan.revision import inputs_digest
from kindling_operator.render import Manifest, render

NODE_NAMES = ("n0", "n1", "n2", "n3")
SETTINGS = examples(40)

PATCHES = [
    *REFUSED.values(),
    *(after for _, after in CHANGES.values()),
    {"serving": {"contextLength": 512, "concurrency": 4096}},
    {"serving": {"extraArgs": ["--max-num=1"]}},
    {"replicas": 0},
    {"replicas": 7},
    {"replicas": "many"},
    {"rollout": {"drainDeadline": "0s"}},
    {"rollout": {"drainDeadline": "9000h", "progressDeadline": "9000000h"}},
    {"model": {"weights": {"uri": "pvc://weights"}}},
    {"model": {"weights": {"uri": f"pvc://weights/{'deep/' * 90}"}}},
    {"model": {"weights": {"uri": "file:///"}}},
    {"model": {"checkpoint": "NVFP4"}},
    {"placement": {"gpu": {"minMemory": "1"}}},
    {"runtime": {"resources": {"cpu": "999999", "memory": "4Pi"}}},
]
BASES = [
    tiny_spec(),
    tiny_spec(tiny_architecture(devices=["GPU"])),
    tiny_spec(tiny_architecture(devices=["CPU", "GPU"], modalities=["Text", "Audio"])),
    tiny_spec(tiny_architecture(checkpoints=[{"name": "NVFP4", "bytes": 2**53 - 1}])),
    catalog_spec("flint"),
    catalog_spec("inkling"),
    {"model": {"name": "flint"}},
]


@st.composite
def specs(draw: st.DrawFn) -> Any:
    """A spec that is nearly right, or quite right, or neither."""
    spec = draw(st.sampled_from(BASES))
    for patch in draw(st.lists(st.sampled_from(PATCHES), max_size=2)):
        spec = merged(spec, patch)
    return spec


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeView:
    """A laptop or a GPU node, in one of many states."""
    product = draw(st.sampled_from([None, *PRODUCTS]))
    if product is None:
        node = cpu_node(name, memory=draw(st.sampled_from([2, 6, 64])) * GIB)
    else:
        node = gpu_node(name, product, gpus=draw(st.integers(0, 8)))
    if draw(st.booleans()):
        node = tainted(node, draw(st.sampled_from(["nvidia.com/gpu", "team"])))
    return replace(
        node,
        ready=draw(st.sampled_from([True, True, True, False])),
        unschedulable=draw(st.sampled_from([False, False, False, True])),
        labels=draw(st.sampled_from([node.labels, {**node.labels, "pool": "gpu"}, {}])),
    )


def holder(place: int, held: tuple[str, int]) -> PodView:
    return foreign_pod(held[0], gpus=held[1], name=f"job-{place}")


@st.composite
def clusters(draw: st.DrawFn, count: int = 2) -> Cluster:
    """A cluster with some models, none of which has run yet."""
    names = draw(st.lists(st.sampled_from(NODE_NAMES), unique=True))
    found = Cluster(
        nodes=tuple(draw(nodes(name)) for name in names),
        pods=tuple(
            holder(place, held)
            for place, held in enumerate(
                draw(
                    st.lists(st.tuples(st.sampled_from(NODE_NAMES), st.integers(1, 8)), max_size=3)
                )
            )
        ),
        claims=draw(
            st.sampled_from([(), (ClaimView("ml", "weights", "Bound", terminating=False),)])
        ),
        environment=environment(name_foreign_holders=draw(st.booleans())),
    )
    for number in range(draw(st.integers(1, count))):
        age = timedelta(minutes=draw(st.integers(0, 2)))
        found.apply(draw(specs()), key=Key("ml", f"model-{number}"), age=age)
    return found


def bytes_of(found: Cluster, key: Key) -> str:
    decision = found.decide(key)
    return json.dumps([repr(decision), found.manifests(key)], sort_keys=True)


@SETTINGS
@given(clusters())
def test_every_decision_is_well_formed(found: Cluster) -> None:
    """No spec and no cluster crashes anything, and every verdict is one of the table's."""
    for key in found.models:
        decision = found.decide(key)

        conditions = [verdict.condition for verdict in decision.verdicts]
        assert conditions[0] is ConditionType.ACCEPTED
        assert len(conditions) == len(set(conditions))
        for verdict in decision.verdicts:
            assert verdict.condition in REASONS[verdict.reason].on
            assert verdict.message.endswith(".")
            assert len(verdict.message.encode()) <= MESSAGE_BYTES
            assert "\n" not in verdict.message
        assert bool(decision.targets) == (decision.current is not None)
        found.manifests(key)


@SETTINGS
@given(clusters(), st.randoms(use_true_random=False))
def test_no_order_of_anything_changes_anything(found: Cluster, shuffle: random.Random) -> None:
    other = Cluster(
        nodes=tuple(shuffle.sample(found.nodes, len(found.nodes))),
        pods=tuple(shuffle.sample(found.pods, len(found.pods))),
        claims=found.claims,
        environment=found.environment,
        models=dict(shuffle.sample(sorted(found.models.items()), len(found.models))),
    )

    for key in found.models:
        assert bytes_of(found, key) == bytes_of(other, key)


@SETTINGS
@given(clusters())
def test_what_is_refused_or_waits_makes_nothing(found: Cluster) -> None:
    for key in found.models:
        decision = found.decide(key)
        scheduled = decision.verdict(ConditionType.SCHEDULED)
        if decision.refused is not None or scheduled is not None:
            assert found.manifests(key) == ()
        else:
            assert found.manifests(key)


def _replicas(target: RevisionTarget) -> int:
    """A group is made only once all its pods have room."""
    return target.replicas if target.revision.plan.group is None else len(target.groups)


def _gpus(plan: EnginePlan) -> int:
    return plan.gpu.count * plan.gpu.nodes if plan.gpu is not None else 0


@SETTINGS
@given(clusters())
def test_gpus_of_the_plan_are_the_gpus_of_the_pods(found: Cluster) -> None:
    for key in found.models:
        decision = found.decide(key)
        planned = sum(_replicas(t) * _gpus(t.revision.plan) for t in decision.targets)
        requested = 0
        for manifest in found.manifests(key):
            for template, pods in _pods_of(manifest):
                (engine,) = template["spec"]["containers"]
                gpus = int(engine["resources"]["limits"].get(GPU_RESOURCE, 0))
                requested += pods * gpus
        assert planned == requested


def _pods_of(manifest: Manifest) -> Iterator[tuple[Any, int]]:
    """The pod templates of a workload, and how many pods it makes of each."""
    spec = manifest.get("spec", {})
    if manifest["kind"] == "Deployment":
        yield spec["template"], spec["replicas"]
    if manifest["kind"] == "LeaderWorkerSet":
        group = spec["leaderWorkerTemplate"]
        yield group["leaderTemplate"], spec["replicas"]
        yield group["workerTemplate"], spec["replicas"] * (group["size"] - 1)


@SETTINGS
@given(clusters(count=4))
def test_models_do_not_share_a_gpu(found: Cluster) -> None:
    """All first replicas that are planned at once fit beside the foreign pods at once."""
    usable = {node.name: node for node in found.nodes}
    wanted: dict[str, int] = {}
    for key in found.models:
        decision = found.decide(key)
        gpu = decision.current.plan.gpu if decision.current is not None else None
        if gpu is not None and decision.targets[0].replicas:
            wanted[gpu.product] = wanted.get(gpu.product, 0) + 1
    for product, count in wanted.items():
        names = [node.name for node in usable.values() if node.gpu_product == product]
        held = {name: sum(p.gpus for p in found.pods if p.node == name) for name in names}
        assert count <= sum(max(0, usable[name].gpus - held[name]) for name in names)


@SETTINGS
@given(clusters(count=1), nodes("extra"))
def test_a_node_more_makes_nothing_impossible(found: Cluster, more: NodeView) -> None:
    (key,) = found.models
    before = found.decide(key)
    found.nodes = (*found.nodes, more)
    after = found.decide(key)

    assert not before.targets or after.targets


@SETTINGS
@given(clusters(count=1))
def test_a_plan_uses_only_nodes_that_exist_and_may_be_used(found: Cluster) -> None:
    (key,) = found.models
    current = found.decide(key).current
    if current is not None and current.plan.gpu is not None:
        products = {n.gpu_product for n in found.nodes if n.ready and not n.unschedulable}
        assert current.plan.gpu.product in products


@SETTINGS
@given(clusters(count=1), st.integers(0, 5))
def test_applied_decisions_settle(found: Cluster, passes: int) -> None:
    """Deciding again after applying changes nothing, however often."""
    (key,) = found.models
    if isinstance(found.models[key], ParsedModel):
        found.step(key)
        before = found.manifests(key)
        for _ in range(passes):
            found.step(key)
        assert found.manifests(key) == before


@SETTINGS
@given(specs(), st.sampled_from([after for path, (_, after) in CHANGES.items()]))
def test_the_digest_sees_what_changes_a_pod(spec: Any, patch: Any) -> None:
    """Two specs with one digest make the same pod, whatever else differs."""
    found = Cluster(nodes=(gpu_node("n0"), cpu_node("n1", memory=64 * GIB)))
    first, second = (_made(found, each) for each in (spec, merged(spec, patch)))
    if first is None or second is None:
        return
    if "rollout" in patch:
        return
    (one, pods_one), (two, pods_two) = first, second

    assert one != two or pods_one == pods_two


def _made(found: Cluster, spec: Any) -> tuple[str, Any] | None:
    found.apply(spec)
    model, decision = found.models[KEY], found.decide()
    if not isinstance(model, ParsedModel) or decision.current is None:
        return None
    deployment = next(m for m in found.manifests() if m["kind"] == "Deployment")
    return inputs_digest(model.spec), deployment["spec"]["template"]


SHAPES = st.lists(
    st.tuples(
        st.sampled_from(["Full", "Sliding"]),
        st.integers(1, 40),
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from([64, 96, 128]),
        st.integers(1, 4096),
    ),
    min_size=1,
    max_size=3,
)


@SETTINGS
@given(SHAPES, st.integers(1, 300_000), st.integers(0, 20_000), st.integers(1, 9))
def test_kv_arithmetic_is_monotone(
    shapes: list[tuple[str, int, int, int, int]], context: int, in_flight: int, concurrency: int
) -> None:
    layout = kv_layout(_architecture(shapes), block_tokens=16)
    blocks = layout.blocks_per_request(context, in_flight=in_flight)
    needed = bytes_needed(layout, blocks_per_request=blocks, concurrency=concurrency)

    assert layout.blocks_per_request(context + 1, in_flight=in_flight) >= blocks
    assert layout.blocks_per_request(context, in_flight=in_flight + 1) >= blocks
    enough = kv_budget(layout, pool_bytes=needed, context=context, in_flight=in_flight)
    more = kv_budget(layout, pool_bytes=2 * needed, context=context, in_flight=in_flight)
    assert enough.blocks >= concurrency * blocks
    assert more.tokens >= enough.tokens
    assert layout.bytes_per_block * enough.blocks <= needed


def _architecture(shapes: list[tuple[str, int, int, int, int]]) -> Any:
    attention = [
        {
            "name": f"g{place}",
            "kind": kind,
            "layers": layers,
            "kvHeads": heads,
            "headSize": size,
            **({"window": window} if kind == "Sliding" else {}),
        }
        for place, (kind, layers, heads, size, window) in enumerate(shapes)
    ]
    layers = sum(shape[1] for shape in shapes)
    model = Cluster().apply(tiny_spec(tiny_architecture(layers=layers, attention=attention)))
    parsed = model.models[KEY]
    assert isinstance(parsed, ParsedModel), parsed
    return parsed.spec.model.custom


def test_plan_and_render_are_functions() -> None:
    """The same snapshot twice gives equal decisions and equal bytes."""
    snapshot = Cluster().apply(tiny_spec()).snapshot()

    def once() -> tuple[Decision, str]:
        decision = plan(snapshot, KEY)
        return decision, json.dumps(render(snapshot, decision))

    assert once() == once()


LABELS = st.dictionaries(
    st.from_regex(r"[a-z]{1,50}/[a-z]{1,63}", fullmatch=True),
    st.from_regex(r"[a-z0-9]{1,63}", fullmatch=True),
    max_size=32,
)
MODELS_OF_GPU = st.lists(
    st.from_regex(r"[A-Z]{1,50}-[0-9]{1,12}", fullmatch=True), max_size=16, unique=True
)


@SETTINGS
@given(st.sampled_from(BASES[4:6]), LABELS, MODELS_OF_GPU)
def test_no_list_of_names_hides_the_fix(base: Any, labels: Any, products: list[str]) -> None:
    placement = {"nodeSelector": labels, "gpu": {"products": products}}
    found = Cluster(nodes=(gpu_node("n0"),))
    found.apply(merged(base, {"placement": placement}))

    for verdict in found.decide().verdicts:
        assert len(verdict.message.encode()) <= MESSAGE_BYTES
        assert verdict.message.endswith("."), verdict.message
        assert "…" not in verdict.message


@given(st.text(max_size=3 * MESSAGE_BYTES))
def test_a_verdict_fits_a_condition_whatever_it_repeats(text: str) -> None:
    verdict = Verdict(ConditionType.ACCEPTED, Reason.INVALID_SPEC, text)

    assert len(verdict.message.encode()) <= MESSAGE_BYTES
    assert len(verdict.message.splitlines()) <= 1
