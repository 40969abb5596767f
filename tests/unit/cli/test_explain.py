"""The story of a model, told from objects as an API server and the operator left them.

`recorded` holds what `kubectl get -o json` printed of a model in each of these states.
"""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from tests.support.onenode import ROOT

from kindling_operator.cli_seen import Seen, seen_in
from kindling_operator.cli_story import age, story
from kindling_operator.cli_terminal import Terminal
from kindling_operator.model.names import Key

RECORDED: Final = ROOT / "tests" / "unit" / "cli" / "recorded"
LATER: Final = timedelta(minutes=12)
STATES: Final = ("refused", "waiting", "loading", "crashing", "rolled-back", "healthy")


def recorded(name: str) -> tuple[list[dict[str, Any]], datetime]:
    """The objects, and when they were read."""
    listed = json.loads((RECORDED / f"{name}.json").read_text())
    return listed["items"], datetime.fromisoformat(listed["metadata"]["annotations"]["recorded-at"])


def seen(name: str) -> Seen:
    items, when = recorded(name)
    return seen_in(items, Key("ml", name), now=when + LATER)


def told(name: str) -> str:
    return story(seen(name), Terminal())


def chapters(name: str) -> dict[str, list[str]]:
    """The lines of each chapter by its title, the head's under ""."""
    head, *rest = told(name).split("\n\n")
    found = {"": head.splitlines()}
    for text in rest:
        title, *lines = text.splitlines()
        found[title] = lines
    return found


def flat(lines: list[str]) -> str:
    """The words of some lines, whatever breaks and columns are between them."""
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize("name", STATES)
def test_every_story_fits_and_has_an_age(name: str) -> None:
    lines = told(name).splitlines()
    assert all(len(line) <= 100 and line == line.rstrip() for line in lines)
    assert "UTC (12 min)" in lines[0]


def test_a_refused_model() -> None:
    found = chapters("refused")
    assert list(found) == ["", "what happened last"]
    assert flat(found[""]) == (
        "ml/refused: refused since 02:51 UTC (12 min), ContextTooLong"
        " spec.serving.contextLength 524288 exceeds the 262144 tokens that flint was made for:"
        " lower it to 262144. What to do: Lower contextLength to the model's maximum."
    )
    assert found["what happened last"][1].startswith("  12 min  ! PlanRefused  ContextTooLong: ")


def test_a_waiting_model_says_who_holds_the_gpus() -> None:
    found = chapters("waiting")
    assert list(found) == [""]
    assert flat(found[""]) == (
        "ml/waiting: waits since 02:51 UTC (12 min), InsufficientGPU Needs 1 x NVIDIA-H200 in one"
        " node; best node gpu-1 has 0 of 1 free, 1 held by ml/training: free 1 or add a node. What"
        " to do: Free GPUs, add nodes, or lower spec.replicas."
    )


def test_a_loading_model_says_until_when() -> None:
    found = chapters("loading")
    assert found[""][0] == "ml/loading: starts since 02:51 UTC (12 min), Loading"
    assert "has until 03:06 UTC to generate a token" in flat(found[""])
    assert found["the rollout"] == [
        "  REVISION            AGE     WANTED  READY  STATE",
        "  loading-12f361a89d  12 min  1       0      has not served yet: CPU, BF16, 2048 ctx",
    ]
    assert found["the pods"][1].endswith("loads the model, for 12 min")


def test_a_crash_loop_has_the_runtimes_last_words_and_the_way_to_the_log() -> None:
    found = chapters("crashing")
    words = (
        "/models/tiny has 2 of 3 files of model.safetensors.index.json,"
        " model-00003-of-00003.safetensors is missing: copy it"
    )
    pod = "crashing-12f361a89d-5697d8b4c9-k4r5k"

    assert found[""][0] == "ml/crashing: fails since 02:51 UTC (12 min), WeightsIncomplete"
    assert words in flat(found[""])
    assert (
        "  What to do: Complete the weights folder; the replica tries again by itself."
        in (found[""])
    )
    pods = flat(found["the pods"]).replace(f"{pod} one 12 min ", "")
    assert f"CrashLoopBackOff, restarts: 1, the last ended with exit code 78: {words}" in pods
    assert found["the pods"][-1] == f"  its last log: kubectl logs --previous -n ml {pod}"
    events = flat(found["what happened last"])
    assert f"! BackOff {pod}: Back-off restarting failed container engine" in events
    assert "(4 times)" in events


def test_a_change_that_was_taken_back() -> None:
    found = chapters("rolled-back")
    assert flat(found[""]) == (
        "ml/rolled-back: serves, but a change has failed since 02:51 UTC (12 min), RolledBack The"
        " newest revision failed and rolled-back-12f361a89d serves again: correct the spec to try"
        " once more. What to do: Correct the spec; the failed revision is not tried again."
    )
    assert [flat([line]) for line in found["the rollout"][1:]] == [
        "rolled-back-988d55d08e 12 min - 0 failed, not tried again: CPU, BF16, 2048 ctx",
        "rolled-back-12f361a89d 12 min 1 1 serves: CPU, BF16, 2048 ctx",
    ]
    assert any("! RolloutRolledBack" in line for line in found["what happened last"])


def test_a_model_that_serves() -> None:
    found = chapters("healthy")
    assert found[""] == [
        "ml/healthy: serves since 02:51 UTC (12 min), Serving",
        "  1 of 1 replicas generate tokens at http://healthy.ml.svc:8000/v1.",
    ]
    assert found["the plan"] == [
        "  decided    CPU, BF16, 2048 ctx",
        "  revision   healthy-12f361a89d",
        "  context    2048 tokens, 256.00 requests at once",
        "  endpoint   http://healthy.ml.svc:8000/v1",
    ]
    assert found["the pods"][1].endswith("generates tokens behind the endpoint")


def test_what_happened_to_another_groups_model_of_the_same_name_is_not_told() -> None:
    items, when = recorded("healthy")
    other = "inference.networking.x-k8s.io/v1alpha2"
    theirs = [
        {**item, "apiVersion": other, "spec": {}, "status": {}}
        for item in items
        if item["kind"] == "InferenceModel"
    ]
    events = [
        {**item, "regarding": {**item["regarding"], "apiVersion": other}, "note": "theirs"}
        for item in items
        if item.get("regarding", {}).get("kind") == "InferenceModel"
    ]
    assert theirs
    assert events

    both = seen_in([*theirs, *events, *items], Key("ml", "healthy"), now=when + LATER)

    assert story(both, Terminal()) == told("healthy")


def test_a_model_that_nobody_has_looked_at() -> None:
    items, when = recorded("refused")
    fresh = [{**items[0], "status": {}}]

    text = story(seen_in(fresh, Key("ml", "refused"), now=when), Terminal())

    assert text.splitlines()[0] == "ml/refused: no operator has looked at it yet"
    assert "`kindling doctor`" in text


def test_a_status_that_is_older_than_the_spec() -> None:
    items, when = recorded("healthy")
    changed = {**items[0], "metadata": {**items[0]["metadata"], "generation": 7}}

    text = story(seen_in([changed, *items[1:]], Key("ml", "healthy"), now=when), Terminal())

    assert "The spec was changed since: this tells of generation 1, the present one is 7;" in flat(
        text.splitlines()
    )


def test_a_model_that_is_being_deleted() -> None:
    items, when = recorded("healthy")
    metadata = {**items[0]["metadata"], "deletionTimestamp": "2026-11-30T02:51:00Z"}
    leaving = [{**items[0], "metadata": metadata}]
    now = datetime.fromisoformat("2026-11-30T02:53:00Z")

    text = story(seen_in(leaving, Key("ml", "healthy"), now=now), Terminal())

    assert text.splitlines()[0] == "ml/healthy: is being deleted since 02:51 UTC (2 min)"
    assert when > datetime.fromisoformat("2026-11-30T02:51:00Z")


def test_what_may_not_be_read_is_said_at_the_end() -> None:
    gap = "you may not list events in namespace ml: ask for a role with the verb list on events"
    text = story(replace(seen("healthy"), gaps=(gap,)), Terminal())

    assert text.splitlines()[-1] == f"  {gap}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (172_800, "2 d"),
    ],
)
def test_an_age_is_in_one_unit(seconds: int, text: str) -> None:
    assert age(timedelta(seconds=seconds)) == text
