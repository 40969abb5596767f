"""What keeps pods off nodes is counted by groups of nodes, and as if each were looked at alone."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.support.builders import PRODUCTS, gpu_node
from tests.support.examples import examples

from kindling_operator.model.api_placement import Placement, Toleration
from kindling_operator.model.api_placement import TolerationOperator as Operator
from kindling_operator.model.objects import NodeView, Taint
from kindling_operator.plan.devices import GPU_TOLERATION, GpuClass, gpu_class, repelling
from kindling_operator.plan.fleet import fleet_of
from kindling_operator.plan.kept_out import kept_out

A, B = sorted(PRODUCTS)[:2]
TAINTS = (Taint("team", "a", "NoSchedule"), Taint("node.kubernetes.io/x", "", "NoExecute"))
LABELS = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("01"), max_size=3)
TOLERATIONS = (Toleration(key="team", value="a"), Toleration(operator=Operator.EXISTS))


@st.composite
def nodes(draw: st.DrawFn) -> list[NodeView]:
    found = []
    for number in range(draw(st.integers(1, 12))):
        node = gpu_node(
            f"n{number}",
            draw(st.sampled_from([A, B])),
            gpus=draw(st.integers(0, 8)),
            ready=draw(st.sampled_from([True, True, False])),
            unschedulable=draw(st.sampled_from([False, False, True])),
            taints=tuple(draw(st.lists(st.sampled_from(TAINTS), unique=True))),
        )
        found.append(replace(node, labels={**node.labels, **draw(LABELS)}))
    return draw(st.permutations(found))


@st.composite
def placements(draw: st.DrawFn) -> Placement | None:
    chosen = draw(st.lists(st.sampled_from(TOLERATIONS), max_size=2))
    return draw(
        st.sampled_from([None, Placement(node_selector=draw(LABELS), tolerations=tuple(chosen))])
    )


def alone(node: NodeView, placement: Placement) -> str:
    """The first thing that keeps pods off one node; "" if nothing does."""
    if any(node.labels.get(key) != value for key, value in placement.node_selector.items()):
        return "not matched by spec.placement.nodeSelector (correct it, or label the nodes)"
    if not node.ready:
        return f"on nodes that are not ready (kubectl describe node {node.name})"
    if node.unschedulable:
        return f"on cordoned nodes (kubectl uncordon {node.name})"
    taints = list(repelling(node.taints, (*placement.tolerations, GPU_TOLERATION)))
    if not taints:
        return ""
    texts = " and ".join(
        f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in taints
    )
    own = "add a toleration to spec.placement.tolerations"
    way = own if taints == [TAINTS[0]] else f"kubectl describe node {node.name}"
    return f"on nodes tainted {texts} ({way})"


@examples(100)
@given(nodes(), placements(), st.sampled_from([{A}, {A, B}]), st.booleans())
def test_the_groups_say_what_the_nodes_say(
    found: list[NodeView], placement: Placement | None, products: set[str], selected: bool
) -> None:
    gpus: dict[str, Counter[str]] = {}
    told: dict[str, str] = {}
    for node in sorted(found, key=lambda node: node.name):
        gpu, why = gpu_class(node), alone(node, placement or Placement())
        if gpu is None or gpu.product not in products or not why:
            continue
        if selected and why.startswith("not matched"):
            continue
        where = why.partition(" (")[0]
        told.setdefault(where, why)
        gpus.setdefault(where, Counter())[f"{gpu.product} ({gpu.capability})"] += node.gpus
    expected = [
        f"{', '.join(f'{n} x {title}' for title, n in sorted(gpus[where].items()))} {told[where]}"
        for where in sorted(gpus, key=lambda where: (-gpus[where].total(), where))
    ]
    asked: Counter[GpuClass] = Counter()

    def of_use(gpu: GpuClass) -> bool:
        asked[gpu] += 1
        return gpu.product in products

    fleet = fleet_of(found)

    assert list(kept_out(fleet, placement, of_use, selected=selected)) == expected
    assert set(asked.values()) <= {1}
