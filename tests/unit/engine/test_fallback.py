"""The least that a status says, where the operator or the API server cannot do with a spec."""

from tests.support.observed import NOW, decision, model, pod, revision, snapshot

from kindling_operator.model.conditions import MESSAGE_BYTES, Reason
from kindling_operator.model.outcome import Outcome
from kindling_operator.report.fallback import broken, fallback, unwritable
from kindling_operator.report.status import status

BUG = broken(ZeroDivisionError("a bug"))


def test_a_fresh_model_is_told_why_it_is_not_accepted() -> None:
    found = fallback(model(generation=3), BUG, now=NOW)

    assert found["observedGeneration"] == 3
    assert [(c["type"], c["status"], c["reason"]) for c in found["conditions"]] == [
        ("Accepted", "False", Reason.INVALID_SPEC),
        ("Ready", "False", Reason.INVALID_SPEC),
    ]
    assert "(ZeroDivisionError: a bug)" in found["conditions"][0]["message"]


def test_what_serves_keeps_its_endpoint_and_its_other_conditions() -> None:
    seen = snapshot(pods=[pod("a", ready=True)], endpoints=["a"])
    stored = status(seen, decision((revision(), 1)), Outcome()).to_wire()
    found = fallback(model(status=stored), BUG, now=NOW)

    assert found["endpoint"] == stored["endpoint"]
    assert found["plan"] == stored["plan"]
    before = {c["type"]: c for c in stored["conditions"]}
    after = {c["type"]: c for c in found["conditions"]}
    assert before["Available"] == after["Available"]
    assert before["Ready"]["status"] == "True"
    assert after["Ready"]["status"] == "False"


def test_what_is_stored_is_left_out_where_it_may_be_what_is_refused() -> None:
    found = fallback(model(status={"endpoint": "x" * 9000}), BUG, now=NOW, kept=False)

    assert set(found) == {"observedGeneration", "conditions"}


def test_a_long_error_on_many_lines_makes_one_sentence() -> None:
    message = unwritable(ValueError("no\n" * 5000)).message

    assert len(message.encode()) < MESSAGE_BYTES
    assert "\n" not in message
