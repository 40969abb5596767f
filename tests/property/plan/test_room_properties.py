"""Properties of the room: no order matters, nothing is given twice, what is gone is not used."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.support.builders import PRODUCTS, foreign_pod, gpu_node
from tests.support.examples import examples

from kindling_operator.model.names import Key
from kindling_operator.model.objects import NodeUse, NodeView, PodView
from kindling_operator.plan.fleet import fleet_of
from kindling_operator.plan.room import Demand, Room, room_of

SETTINGS = examples(75)
NAMES = tuple(f"n{i}" for i in range(8))


@st.composite
def nodes(draw: st.DrawFn) -> list[NodeView]:
    return [
        gpu_node(
            name,
            draw(st.sampled_from(sorted(PRODUCTS)[:2])),
            gpus=draw(st.integers(0, 8)),
            memory=draw(st.integers(1, 8)),
            cpu_millis=draw(st.integers(1, 8)),
            clique=draw(st.sampled_from(["", "x", "y"])),
            zone=draw(st.sampled_from(["", "east", "west"])),
            ready=draw(st.sampled_from([True, True, False])),
        )
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    ]


def pods() -> st.SearchStrategy[list[PodView]]:
    held = st.tuples(st.sampled_from(NAMES), st.integers(1, 4), st.integers(0, 4))
    return st.lists(held, max_size=4).map(
        lambda found: [
            replace(foreign_pod(node, gpus=gpus, name=f"job-{i}"), memory=memory)
            for i, (node, gpus, memory) in enumerate(found)
        ]
    )


@st.composite
def asked(draw: st.DrawFn) -> list[tuple[str, Demand]]:
    """Replicas by product: whoever asks first is served first."""
    return [
        (
            draw(st.sampled_from(sorted(PRODUCTS)[:2])),
            Demand(
                None,
                gpus_per_node=draw(st.integers(1, 8)),
                nodes=draw(st.integers(1, 3)),
                memory=draw(st.integers(0, 4)),
                one_clique=draw(st.booleans()),
            ),
        )
        for _ in range(draw(st.integers(1, 6)))
    ]


def served(room: Room, wanted: list[tuple[str, Demand]]) -> list[tuple[str, ...] | None]:
    """Place one replica after the other."""
    found = []
    for number, (product, demand) in enumerate(wanted):
        pool = next((p for p in room.fleet.pools(None) if p.gpu and p.gpu.product == product), None)
        names = None
        if pool is not None:
            names = room.place(replace(demand, gpu=pool.gpu), pool)
            if names is not None:
                room.take(demand.per_node, names, of=Key("ml", f"m-{number}"))
        found.append(names)
    return found


@SETTINGS
@given(nodes(), pods(), asked(), st.randoms())
def test_no_order_of_nodes_and_pods_changes_a_place(
    some: list[NodeView], others: list[PodView], wanted: list[tuple[str, Demand]], chance: object
) -> None:
    shuffled, mixed = list(some), list(others)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    chance.shuffle(mixed)  # type: ignore[attr-defined]

    first = served(room_of(fleet_of(some), others), wanted)

    assert first == served(room_of(fleet_of(shuffled), mixed), wanted)


@SETTINGS
@given(nodes(), pods(), asked())
def test_nothing_is_given_twice(
    some: list[NodeView], others: list[PodView], wanted: list[tuple[str, Demand]]
) -> None:
    fleet = fleet_of(some)
    found = served(room_of(fleet, others), wanted)

    gpus, memory = Counter[str](), Counter[str]()
    for pod in others:
        gpus[pod.node] += pod.gpus
        memory[pod.node] += pod.memory
    before = Counter(gpus)
    for names, (_, demand) in zip(found, wanted, strict=True):
        assert names is None or len(set(names)) == demand.nodes
        for name in names or ():
            gpus[name] += demand.gpus_per_node
            memory[name] += demand.memory
    for node in some:
        if gpus[node.name] > before[node.name]:
            assert gpus[node.name] <= node.gpus
            assert memory[node.name] <= node.memory
            assert node.ready


@SETTINGS
@given(nodes(), pods(), asked(), st.sampled_from(NAMES))
def test_a_node_that_is_gone_is_never_used(
    some: list[NodeView], others: list[PodView], wanted: list[tuple[str, Demand]], gone: str
) -> None:
    left = [node for node in some if node.name != gone]

    for names in served(room_of(fleet_of(left), others), wanted):
        assert gone not in (names or ())


@SETTINGS
@given(nodes(), asked(), st.sampled_from(NAMES), st.integers(0, 8))
def test_what_others_take_never_makes_room(
    some: list[NodeView], wanted: list[tuple[str, Demand]], busy: str, memory: int
) -> None:
    """The first that asks has the whole room; with less of it, it finds a place only if before."""
    fleet = fleet_of(some)
    used = {busy: NodeUse(memory=memory, pods=1)}
    (before,) = served(room_of(fleet, []), wanted[:1])
    (after,) = served(room_of(fleet, [], used=used), wanted[:1])

    assert before is not None or after is None
