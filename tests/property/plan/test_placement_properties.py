"""Properties of the sweep over models: no GPU twice, no order matters, what is gone is unused."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.builders import (
    KEY,
    Cluster,
    catalog_spec,
    cpu_node,
    foreign_pod,
    gpu_node,
    tiny_spec,
)

from kindling_operator.model.names import (
    LABEL_DRIVER,
    LABEL_GPU_MAJOR,
    LABEL_GPU_MINOR,
    LABEL_GPU_PRODUCT,
    Key,
)
from kindling_operator.model.objects import GpuShare, NodeUse
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.plan.fleet import fleet_of
from kindling_operator.plan.kinds import asked
from kindling_operator.plan.placement import Placed, placements
from kindling_operator.plan.subject import subject_of

SETTINGS = settings(deadline=None, max_examples=25)
NAMES = ("n0", "n1", "n2", "n3")
PRODUCTS = ("NVIDIA-H200", "NVIDIA-B200")
SPECS: tuple[Any, ...] = (
    catalog_spec("flint"),
    catalog_spec("inkling"),
    catalog_spec("flint", placement={"parallelism": {"tensor": 4}}),
    catalog_spec("flint", placement={"gpu": {"products": ["NVIDIA-H200"]}}),
    tiny_spec(),
)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """A few nodes, partly held, and models that compete."""
    found = Cluster(
        nodes=tuple(
            cpu_node(name)
            if draw(st.booleans()) and name == "n3"
            else gpu_node(
                name,
                draw(st.sampled_from(PRODUCTS)),
                gpus=draw(st.sampled_from([1, 4, 8])),
                clique=draw(st.sampled_from(["", "x"])),
            )
            for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
        ),
        pods=tuple(
            foreign_pod(node, gpus=gpus, name=f"job-{i}")
            for i, (node, gpus) in enumerate(
                draw(st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 4)), max_size=3))
            )
        ),
    )
    for number in range(draw(st.integers(1, 4))):
        spec = {**draw(st.sampled_from(SPECS)), "replicas": draw(st.integers(0, 3))}
        age = timedelta(minutes=draw(st.integers(0, 2)))
        found.apply(spec, key=Key("ml", f"model-{number}"), age=age)
    return found


def swept(snapshot: Snapshot) -> dict[Key, Placed]:
    found = placements(snapshot)
    return {key: found.of(key) for key in snapshot.models}


@SETTINGS
@given(clusters())
def test_what_is_kept_free_was_free(found: Cluster) -> None:
    snapshot = found.snapshot()
    taken: Counter[str] = Counter()
    for pod in snapshot.pods:
        taken[pod.node] += pod.gpus
    kept: Counter[str] = Counter()
    for placed in swept(snapshot).values():
        plan = placed.choice.plan
        for names in placed.nodes:
            assert len(set(names)) == len(names)
            for name in names:
                kept[name] += plan.gpus_per_pod if plan is not None else 0

    for node in snapshot.nodes:
        assert kept[node.name] <= max(0, node.gpus - taken[node.name])
    assert set(kept) <= {node.name for node in snapshot.nodes}


@SETTINGS
@given(clusters(), st.randoms())
def test_no_order_of_anything_changes_a_place(found: Cluster, chance: Any) -> None:
    snapshot = found.snapshot()
    nodes, pods, models = list(snapshot.nodes), list(snapshot.pods), list(snapshot.models.items())
    for each in (nodes, pods, models):
        chance.shuffle(each)

    mixed = replace(snapshot, nodes=tuple(nodes), pods=tuple(pods), models=dict(models))

    assert swept(mixed) == swept(snapshot)


@SETTINGS
@given(clusters(), st.sampled_from(NAMES))
def test_a_node_that_is_gone_or_cordoned_is_used_by_nobody(found: Cluster, name: str) -> None:
    snapshot = found.snapshot()
    gone = replace(snapshot, nodes=tuple(n for n in snapshot.nodes if n.name != name))
    cordoned = replace(
        snapshot,
        nodes=tuple(
            replace(n, unschedulable=True) if n.name == name else n for n in snapshot.nodes
        ),
    )

    for each in (gone, cordoned):
        for placed in swept(each).values():
            assert all(name not in names for names in placed.nodes)


@SETTINGS
@given(clusters(), st.sampled_from(NAMES))
def test_a_node_whose_cpu_others_have_is_used_by_nobody(found: Cluster, name: str) -> None:
    full = {node.name: node.cpu_millis for node in found.nodes if node.name == name}
    used = {node: NodeUse(cpu_millis=cpu, pods=1) for node, cpu in full.items()}

    for placed in swept(replace(found.snapshot(), used=used)).values():
        assert all(name not in names for names in placed.nodes)


LEAST = (LABEL_GPU_PRODUCT, LABEL_GPU_MAJOR, LABEL_GPU_MINOR)
SAID = st.fixed_dictionaries(
    {
        "driver": st.sampled_from(["", "535.1", "580.65.06", "590.1"]),
        "gpu_memory": st.sampled_from([143_771, 143_000, 80_000]).map(lambda mib: mib << 20),
        "architecture": st.sampled_from(["amd64", "amd64", "arm64"]),
        "share": st.sampled_from([GpuShare.WHOLE, GpuShare.WHOLE, GpuShare.TIME]),
    }
)


def admitted(template: Any, labels: Mapping[str, str]) -> bool:
    """Whether the scheduler takes a node of these labels for a pod (core/v1 NodeAffinity)."""
    selector, affinity = template["nodeSelector"], template["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    holds: dict[str, Callable[[str | None, list[str]], bool]] = {
        "In": lambda label, values: label in values,
        "NotIn": lambda label, values: label not in values,
        "DoesNotExist": lambda label, _: label is None,
        "Gt": lambda label, values: label is not None and int(label) > int(values[0]),
        "Lt": lambda label, values: label is not None and int(label) < int(values[0]),
    }
    return selector.items() <= labels.items() and any(
        all(
            holds[each["operator"]](labels.get(each["key"]), each.get("values", []))
            for each in term["matchExpressions"]
        )
        for term in terms
    )


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(SAID, st.booleans()), min_size=1, max_size=6))
def test_planner_and_scheduler_take_the_same_nodes(said: list[tuple[dict[str, Any], bool]]) -> None:
    """Whatever nodes say or leave out, none is taken that tells of an older driver; and of nodes
    that say everything exactly those that the planner counts."""
    nodes = []
    for number, (facts, silent) in enumerate(said):
        found = gpu_node(f"n{number}", gpus=1, **facts)
        labels = {key: found.labels[key] for key in LEAST}
        nodes.append(replace(found, labels=labels) if silent else found)
    cluster = Cluster(nodes=tuple(nodes)).apply(catalog_spec("flint"))
    snapshot, decision = cluster.snapshot(), cluster.decide()
    model = snapshot.models[KEY]
    assert isinstance(model, ParsedModel)
    subject = subject_of(model, snapshot.environment)
    if decision.current is None or subject is None:
        return
    plan = decision.current.plan
    [deployment] = [each for each in cluster.manifests() if each["kind"] == "Deployment"]
    template = deployment["spec"]["template"]["spec"]
    taken = {node.name for node in nodes if admitted(template, node.labels)}
    counted = asked(subject, plan, fleet_of(nodes))[1].names

    assert counted <= taken
    told = {node.name: node.labels.get(LABEL_DRIVER, "") for node in nodes}
    assert not [name for name in taken if told[name] and int(told[name]) < 580]
    if not any(silent for _, silent in said) and all(facts["driver"] for facts, _ in said):
        assert taken == counted
