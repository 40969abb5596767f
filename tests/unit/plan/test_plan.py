"""Stories over several passes: what a user does, and what the operator makes of it."""

from dataclasses import replace

from tests.support.builders import (
    KEY,
    Cluster,
    catalog_spec,
    cpu_node,
    gpu_node,
    tiny_spec,
)
from tests.support.served import BROKEN, OTHER, REFUSED, current, served

from kindling_operator.model.conditions import ConditionType, Reason
from kindling_operator.model.names import (
    ANNOTATION_FAILED,
    ANNOTATION_REPLAN,
    ANNOTATION_SERVED,
    CONTROLLER_REVISION,
    DEPLOYMENT,
)
from kindling_operator.model.plan import RolloutState


def test_a_model_comes_up_and_then_nothing_changes_any_more() -> None:
    found, name = served()
    before = found.manifests()

    for _ in range(3):
        decision = found.later(hours=5).step()
    assert (current(decision), decision.state) == (name, RolloutState.STEADY)
    assert found.manifests() == before
    assert decision.look_again is None


def test_scaling_touches_the_number_of_replicas_alone() -> None:
    found, name = served()
    before = {(m["kind"], m["metadata"]["name"]): m for m in found.manifests()}

    found.apply(tiny_spec(replicas=2)).step()

    after = {(m["kind"], m["metadata"]["name"]): m for m in found.manifests()}
    place = ("Deployment", f"tiny-{name}")
    assert after[place]["spec"] == {**before[place]["spec"], "replicas": 2}
    assert {k: v for k, v in after.items() if k != place} == {
        k: v for k, v in before.items() if k != place
    }


def test_a_change_takes_over_once_it_serves() -> None:
    found, old = served()
    new = current(found.apply(OTHER).step())
    assert found.deployed() == {old, new}

    found.serve(new).step()
    assert found.deployed() == {new}
    assert found.remembered() == {old, new}
    found.step()
    assert found.remembered() == {old, new}


def test_going_back_brings_the_very_same_pods_back() -> None:
    found, old = served()
    template = found.children[KEY][(DEPLOYMENT.kind, f"tiny-{old}")].manifest["spec"]["template"]
    new = current(found.apply(OTHER).step())
    found.serve(new).step()

    again = current(found.apply(tiny_spec()).step())

    assert again == old
    back = found.children[KEY][(DEPLOYMENT.kind, f"tiny-{old}")].manifest["spec"]["template"]
    assert back == template
    assert found.deployed() == {old, new}


def test_a_failed_change_is_rolled_back_and_the_next_one_is_tried() -> None:
    found, old = served()
    new = current(found.apply(BROKEN).step())
    found.start(new)
    waiting = found.step()
    assert waiting.look_again is not None

    found.pods = tuple(
        replace(pod, ended_exit_code=78, ended_message="WeightsIncomplete: no config.json.")
        if pod.revision == new
        else pod
        for pod in found.pods
    )
    back = found.later(minutes=46).step()
    assert (current(back), back.state) == (old, RolloutState.ROLLED_BACK)
    assert found.deployed() == {old}
    assert found.remembered() == {old, new}
    later = found.later(days=1).step()
    assert later.state is RolloutState.ROLLED_BACK
    assert [each.why for each in later.kept] == ["exit code 78: no config.json"], (
        "the pods are gone"
    )

    fixed = current(found.apply(OTHER).step())
    assert found.deployed() == {old, fixed}
    assert new not in found.remembered()


def test_an_operator_that_was_away_before_the_first_pod_gives_the_change_its_time() -> None:
    """It stored the revision, and died before it made the Deployment."""
    found, old = served()
    new = current(found.apply(BROKEN).step())
    found.children[KEY] = {
        place: child
        for place, child in found.children[KEY].items()
        if child.ref.kind == CONTROLLER_REVISION or child.ref.name != f"tiny-{new}"
    }

    back = found.later(hours=1).step()

    assert (current(back), back.state) == (new, RolloutState.ROLLING)
    assert found.deployed() == {old, new}
    found.start(new)
    assert found.later(minutes=44).step().state is RolloutState.ROLLING
    assert found.later(minutes=2).step().state is RolloutState.ROLLED_BACK
    assert found.later(days=1).step().state is RolloutState.ROLLED_BACK


def test_what_was_taken_back_is_written_down_and_no_longer_once_it_is_tried_again() -> None:
    found, _ = served()
    new = current(found.apply(BROKEN).step())

    def written() -> dict[str, str]:
        stored = found.children[KEY][(CONTROLLER_REVISION.kind, f"tiny-{new}")]
        return dict(stored.annotations)

    found.start(new).later(minutes=46).step()
    assert written() == {ANNOTATION_FAILED: "true"}

    longer = {**BROKEN, "rollout": {"progressDeadline": "2h"}}
    assert found.apply(longer).step().state is RolloutState.ROLLING
    assert written() == {}


def test_replanning_a_failed_revision_tries_it_again() -> None:
    found, old = served()
    failed = current(found.apply(BROKEN).step())
    found.start(failed)
    found.later(minutes=46).step()

    again = current(
        found.apply(BROKEN, annotations={ANNOTATION_REPLAN: "2026-11-30T11:00:00Z"}).step()
    )

    assert again not in {old, failed}
    assert found.deployed() == {old, again}


def test_a_first_revision_that_does_not_serve_says_so_and_is_tried_on() -> None:
    found = Cluster().apply(tiny_spec(rollout={"progressDeadline": "10m"}))
    name = current(found.step())
    found.start(name)

    decision = found.later(minutes=11).step()

    progressing = decision.verdict(ConditionType.PROGRESSING)
    assert progressing is not None
    assert (progressing.reason, progressing.message) == (
        Reason.DEADLINE_EXCEEDED,
        f"Revision tiny-{name} generated no token within 10m: see the reason of Available, then"
        " correct the spec or raise spec.rollout.progressDeadline.",
    )
    assert found.deployed() == {name}


def test_a_wrong_edit_loses_nothing() -> None:
    found, name = served()
    before = found.manifests()

    decision = found.apply(REFUSED).step()

    assert decision.refused is not None
    assert decision.refused.reason is Reason.NOT_YET_SUPPORTED
    assert current(decision) == name
    assert found.manifests() == before


def test_a_wrong_edit_during_a_change_keeps_both() -> None:
    found, old = served()
    new = current(found.apply(OTHER).step())

    found.apply(REFUSED).step()

    assert found.deployed() == {old, new}


def test_a_wrong_edit_after_going_back_keeps_what_runs() -> None:
    """The revision that runs is older than one that is only remembered."""
    found, old = served()
    new = current(found.apply(OTHER).step())
    found.serve(new).step()
    found.apply(tiny_spec()).step()
    found.serve(old).step()
    assert found.deployed() == {old}

    found.apply(REFUSED).step()
    assert found.deployed() == {old}


def test_a_wrong_edit_after_a_rollback_keeps_what_runs() -> None:
    found, old = served()
    new = current(found.apply(BROKEN).step())
    found.start(new)
    found.later(minutes=46).step()

    found.apply(REFUSED).step()
    assert found.deployed() == {old}


def test_a_spec_that_cannot_be_read_leaves_everything_alone() -> None:
    found, name = served()

    decision = found.apply({"replicas": "many"}).step()

    assert decision.untouched
    assert decision.refused is not None
    assert decision.refused.reason is Reason.INVALID_SPEC
    assert [(t.revision.hash, t.replicas) for t in decision.targets] == [(name, 1)]
    assert found.deployed() == {name}


def test_scaling_while_a_wrong_edit_waits_still_works() -> None:
    found, name = served()

    decision = found.apply({**REFUSED, "replicas": 3}).step()

    assert [(t.revision.hash, t.replicas) for t in decision.targets] == [(name, 3)]


def test_an_older_model_keeps_serving_while_a_change_waits_for_gpus() -> None:
    found = Cluster(nodes=(gpu_node("gpu-0", gpus=1), cpu_node()))
    old = current(found.apply(catalog_spec("flint")).step())
    found.serve(old, node="gpu-0", gpus=1).step()

    decision = found.apply(catalog_spec("flint", serving={"contextLength": 32_768})).step()

    scheduled = decision.verdict(ConditionType.SCHEDULED)
    assert scheduled is not None
    assert (scheduled.reason, scheduled.message) == (
        Reason.WAITING_FOR_CAPACITY,
        f"The new revision waits and tiny-{old} keeps its replicas: needs 1 x NVIDIA-H200 in one"
        " node; best node gpu-0 has 0 of 1 free, 1 held by ml/tiny: free 1 or add a node, or"
        " accept a downtime by setting spec.replicas to 0 and back to 1.",
    )
    assert found.deployed() == {old}
    assert found.remembered() == {old}


def test_a_change_may_take_the_gpus_of_a_revision_that_never_served() -> None:
    found = Cluster(nodes=(gpu_node("gpu-0", gpus=1), cpu_node()))
    stuck = current(found.apply(catalog_spec("flint")).step())
    found.start(stuck, node="gpu-0", gpus=1)

    new = current(found.apply(catalog_spec("flint", serving={"contextLength": 32_768})).step())

    assert found.deployed() == {new}


def test_what_was_missing_starts_it_by_itself() -> None:
    found = Cluster(claims=()).apply(tiny_spec())
    assert found.step().targets == ()

    found.claims = Cluster().claims
    assert len(found.step().targets) == 1


def test_having_served_is_written_down_and_stays() -> None:
    found = Cluster().apply(tiny_spec())
    name = current(found.step())

    def written() -> str | None:
        stored = next(m for m in found.manifests() if m["kind"] == "ControllerRevision")
        said: str | None = stored["metadata"].get("annotations", {}).get(ANNOTATION_SERVED)
        return said

    assert written() is None
    found.serve(name)
    assert written() == "true"
    found.step()
    found.pods = tuple(replace(pod, ready=False) for pod in found.pods)
    found.endpoints = {}
    assert written() == "true"


def test_zero_replicas_keep_the_revision_and_its_endpoint() -> None:
    found, name = served()

    decision = found.apply(tiny_spec(replicas=0)).step()

    assert [(t.revision.hash, t.replicas) for t in decision.targets] == [(name, 0)]
    assert "Service" in {m["kind"] for m in found.manifests()}
