"""What a leaving pod cut outlives the pod, and is told once."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.observed import KEY, NOW, model, snapshot

from kindling_operator.model import names
from kindling_operator.model.names import Key
from kindling_operator.observe.cuts import KEPT, Cuts
from kindling_operator.report.events import cuts, manifest

WORDS = (
    "DrainDeadlineExceeded: 3 of 5 running requests were cut after 600 s;"
    " the engine ended cleanly 3.8 s after SIGTERM"
)
TOLD = (
    "flint-a was told to leave, and 3 of 5 running requests were cut after 600 s; the engine ended"
    " cleanly 3.8 s after SIGTERM: raise spec.rollout.drainDeadline if requests need longer"
    " (replicas of the next revision have it)."
)


def body(
    name: str = "flint-a", *, words: str = WORDS, at: datetime = NOW, state: str = "state"
) -> dict[str, Any]:
    """A pod of ours as the watch delivers it last: its container has ended."""
    ended = {"exitCode": 0, "message": words, "finishedAt": at.isoformat()}
    engine = {"name": names.ENGINE_CONTAINER, state: {"terminated": ended}}
    return {
        "metadata": {
            "namespace": KEY.namespace,
            "name": name,
            "uid": f"uid-of-{name}",
            "labels": {names.LABEL_MODEL: KEY.name},
            "deletionTimestamp": "2026-11-30T10:00:00Z",
        },
        "status": {"phase": "Succeeded", "containerStatuses": [engine]},
    }


def notes(heard: Cuts, key: Key = KEY) -> list[tuple[str, str, str]]:
    found = cuts(snapshot(cuts=heard.untold), key)
    return [(event.type, event.reason, event.note) for event in found]


def test_what_a_pod_cut_is_told_in_one_sentence_although_it_is_gone() -> None:
    heard = Cuts()
    heard.hear(body(), now=NOW)

    assert snapshot(cuts=heard.untold).pods == ()
    assert notes(heard) == [("Warning", "RequestsCut", TOLD)]
    assert notes(heard, Key("ml", "another")) == []


def test_it_is_told_once_however_often_the_watch_delivers_it() -> None:
    heard = Cuts()
    heard.hear(body(), now=NOW)
    heard.hear(body(), now=NOW)
    assert len(notes(heard)) == 1

    heard.told(heard.untold[KEY])
    heard.hear(body(), now=NOW + timedelta(seconds=1))

    assert notes(heard) == []


def test_each_pod_is_told_in_the_order_of_their_ends() -> None:
    heard = Cuts()
    heard.hear(body("flint-b", at=NOW), now=NOW)
    heard.hear(body("flint-a", at=NOW + timedelta(seconds=1)), now=NOW)

    assert [note.split()[0] for _, _, note in notes(heard)] == ["flint-b", "flint-a"]


def test_a_container_that_was_started_again_has_cut_all_the_same() -> None:
    heard = Cuts()
    heard.hear(body(state="lastState"), now=NOW)

    assert notes(heard) == [("Warning", "RequestsCut", TOLD)]


@pytest.mark.parametrize(
    "words",
    [
        "",
        "Drained: all 2 running requests finished; the engine ended cleanly 1.0 s after SIGTERM",
        "EngineExited: the engine was killed by SIGKILL",
        "3 of 5 running requests were cut",
    ],
)
def test_a_pod_with_other_last_words_has_cut_nothing(words: str) -> None:
    heard = Cuts()
    heard.hear(body(words=words), now=NOW)

    assert notes(heard) == []


def test_a_pod_of_somebody_else_is_none_of_ours() -> None:
    other = body()
    del other["metadata"]["labels"]
    heard = Cuts()
    heard.hear(other, now=NOW)

    assert heard.untold == {}


def test_an_old_end_is_no_news_and_what_was_told_is_forgotten_with_it() -> None:
    heard = Cuts()
    heard.hear(body("flint-a"), now=NOW)
    heard.told(heard.untold[KEY])
    later = NOW + KEPT + timedelta(seconds=1)

    heard.hear(body("flint-a"), now=later)
    heard.hear(body("flint-b", at=later), now=later)
    heard.hear(body("flint-a"), now=later)

    assert [note.split()[0] for _, _, note in notes(heard)] == ["flint-b"]


def test_one_pod_has_one_event_whatever_the_spec_is_by_then() -> None:
    """Two processes, or a change of the spec between: the API server refuses the second."""
    heard = Cuts()
    heard.hear(body(), now=NOW)
    heard.hear(body("flint-b"), now=NOW)
    first, second = cuts(snapshot(cuts=heard.untold), KEY)

    def name(event: Any, generation: int) -> str:
        made = manifest(event, model(generation=generation), now=NOW, instance="a")
        return str(made["metadata"]["name"])

    assert name(first, 1) == name(first, 2)
    assert name(first, 1) != name(second, 1)
