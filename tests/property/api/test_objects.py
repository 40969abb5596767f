"""Properties of parsing and of conditions: whatever arrives, an answer with a sentence."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.manifests import merged, model
from tests.support.refusals import FLINT, TINY

from kindling_operator.model.conditions import (
    MESSAGE_BYTES,
    Condition,
    ConditionStatus,
    ConditionType,
    Reason,
    fit_message,
    new_condition,
    set_condition,
)
from kindling_operator.model.conditions_table import REASONS
from kindling_operator.model.parse import Invalid, ParsedModel, parse

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=12)
)
JSON = st.recursive(
    LEAVES,
    lambda below: st.one_of(
        st.lists(below, max_size=3), st.dictionaries(st.text(max_size=12), below, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ("model", "serving", "endpoint", "placement", "runtime", "scaling", "cache", "rollout", "x")
)
NEARLY_VALID = st.dictionaries(FIELDS, JSON, max_size=3).map(lambda more: merged(FLINT, more))


@given(st.one_of(JSON, NEARLY_VALID))
def test_any_spec_is_either_valid_or_told_why(spec: Any) -> None:
    found = parse(model("flint", "ml", spec))
    if isinstance(found, Invalid):
        assert found.message == fit_message(found.message) != ""
        assert found.reason in REASONS


@given(
    heads=st.integers(1, 64),
    groups=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=4),
    layers=st.integers(1, 32),
)
def test_an_architecture_is_valid_exactly_if_it_adds_up(
    heads: int, groups: list[tuple[int, int]], layers: int
) -> None:
    attention = [
        {"name": f"g{i}", "kind": "Full", "layers": count, "kvHeads": kv_heads, "headSize": 64}
        for i, (count, kv_heads) in enumerate(groups)
    ]
    architecture = TINY | {"attentionHeads": heads, "layers": layers, "attention": attention}
    found = parse(model("m", "ml", {"model": {"name": "custom", "custom": architecture}}))
    adds_up = layers == sum(count for count, _ in groups)
    divides = all(heads % kv_heads == 0 for _, kv_heads in groups)
    assert isinstance(found, ParsedModel) == (adds_up and divides)


@given(st.text(max_size=3000))
def test_a_message_always_fits(text: str) -> None:
    fitted = fit_message(text)
    assert len(fitted.encode(errors="surrogatepass")) <= MESSAGE_BYTES
    assert "\n" not in fitted
    assert fit_message(fitted) == fitted


STEPS = st.lists(
    st.tuples(
        st.sampled_from(ConditionType), st.sampled_from(ConditionStatus), st.integers(0, 10**6)
    ),
    max_size=20,
)


@given(STEPS)
def test_transition_times_move_exactly_with_the_status(
    steps: list[tuple[ConditionType, ConditionStatus, int]],
) -> None:
    conditions: tuple[Condition, ...] = ()
    for kind, status, second in steps:
        before = {c.type: c for c in conditions}
        new = new_condition(
            kind,
            status,
            reason=Reason.SERVING,
            message="m",
            generation=1,
            now=datetime.fromtimestamp(second, UTC),
        )
        conditions = set_condition(conditions, new)
        after = {c.type: c for c in conditions}
        old = before.pop(kind.value, None)
        kept = old is not None and old.status is status
        moment = after[kind.value].last_transition_time
        assert moment == (old.last_transition_time if kept and old else new.last_transition_time)
        assert {name: after[name] for name in before} == before
