"""What happens around a model that serves restarts nothing of it."""

import msgspec
from tests.support.builders import (
    Cluster,
    catalog_spec,
    cpu_node,
    environment,
    foreign_pod,
    gpu_node,
    tiny_spec,
)
from tests.support.served import current, served

from kindling_operator.model.conditions import Reason
from kindling_operator.model.names import (
    ANNOTATION_REPLAN,
)


def test_an_upgrade_of_the_operator_changes_no_template() -> None:
    found, name = served()
    before = found.manifests()
    found.environment = environment(cpu_image="registry.test/kindling/runtime-cpu@sha256:new")

    decision = found.step()

    assert found.manifests() == before
    assert decision.better is not None
    assert (decision.better.reason, decision.better.message) == (
        Reason.BETTER_PLAN_AVAILABLE,
        "A plan made now would have image registry.test/kindling/runtime-cpu@sha256:new instead of"
        " registry.test/kindling/runtime-cpu@sha256:c0de: run `kindling replan im/tiny -n ml` to"
        " take it, which replaces the replicas.",
    )
    taken = found.apply(tiny_spec(), annotations={ANNOTATION_REPLAN: "now"}).step()
    assert current(taken) != name
    assert found.deployed() == {name, current(taken)}


def test_a_change_of_the_catalog_restarts_nothing() -> None:
    found = Cluster(nodes=(gpu_node("gpu-0"), cpu_node())).apply(catalog_spec("flint"))
    name = current(found.step())
    found.serve(name, node="gpu-0", gpus=1).step()
    before = found.manifests()
    flint = found.environment.catalog["flint"]
    changed = msgspec.structs.replace(flint, required_arguments=("--seed=1",))
    found.environment = environment(catalog={"flint": changed})

    decision = found.step()

    assert found.manifests() == before
    assert decision.better is not None
    assert "other engine arguments or resources" in decision.better.message


def test_a_catalog_that_lost_the_model_stops_nothing() -> None:
    found = Cluster(nodes=(gpu_node("gpu-0"), cpu_node())).apply(catalog_spec("flint"))
    name = current(found.step())
    found.serve(name, node="gpu-0", gpus=1).step()
    found.environment = environment(catalog={})

    decision = found.step()

    assert found.deployed() == {name}
    assert decision.verdicts[0].holds


def test_nodes_that_come_and_go_restart_nothing() -> None:
    found = Cluster(nodes=(gpu_node("gpu-0"), cpu_node())).apply(catalog_spec("flint"))
    name = current(found.step())
    found.serve(name, node="gpu-0", gpus=1).step()
    before = found.manifests()

    found.nodes = (gpu_node("gpu-0"), gpu_node("gpu-1", "NVIDIA-B200"))
    better = found.step().better
    assert better is not None
    assert "GPU NVIDIA-B200 instead of NVIDIA-H200" in better.message
    found.nodes = ()
    gone = found.step()

    assert gone.better is None
    assert gone.verdicts[0].holds
    assert found.manifests() == before


def test_a_model_that_fills_the_cluster_is_not_told_that_it_would_not_fit() -> None:
    found = Cluster(nodes=(gpu_node("gpu-0", gpus=1), cpu_node())).apply(catalog_spec("flint"))
    name = current(found.step())
    found.serve(name, node="gpu-0", gpus=1).step()

    assert found.decide().better is None


def test_others_that_fill_the_cluster_are_no_better_plan() -> None:
    found = Cluster(nodes=(gpu_node("gpu-0", gpus=2), cpu_node())).apply(catalog_spec("flint"))
    name = current(found.step())
    found.serve(name, node="gpu-0", gpus=1).step()
    found.pods = (*found.pods, foreign_pod("gpu-0", gpus=2))

    assert found.decide().better is None


def test_a_longer_drain_is_for_the_next_plan_and_no_better_plan() -> None:
    found, _ = served()
    before = found.manifests()

    found.apply(tiny_spec(rollout={"drainDeadline": "1h"})).step()

    assert found.manifests() == before
    assert found.decide().better is None
