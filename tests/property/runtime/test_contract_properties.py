"""The contract for every plan and every sequence of bytes."""

import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.engine.plans import launch_plan

from kindling_runtime import contract
from kindling_runtime.contract import (
    CONTRACT_VERSION,
    ContractError,
    Drain,
    Engine,
    Expected,
    Front,
    Group,
    LaunchPlan,
    Model,
    Probe,
    Rank,
    Requires,
    Weights,
)

LONGEST = 7 * 86_400
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
seconds = st.integers(1, LONGEST)
ports = st.integers(1, 65_535)
counts = st.none() | st.integers(0, 2**62)
variables = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,20}\Z")

ranks = st.builds(Rank, argv=st.lists(texts, max_size=4).map(tuple), serves=st.booleans())
groups = st.builds(
    Group,
    ranks=st.lists(ranks, min_size=2, max_size=4).map(tuple),
    port=ports,
    gather_seconds=seconds,
)
plans = st.builds(
    LaunchPlan,
    model=st.builds(Model, name=names, served_name=names),
    weights=st.builds(Weights, uri=names, path=texts.map("/{}".format)),
    engine=st.builds(
        Engine,
        argv=st.lists(texts, min_size=1, max_size=6).map(tuple),
        env=st.dictionaries(variables, texts, max_size=4),
        port=ports,
    ),
    probe=st.builds(
        Probe,
        startup_seconds=seconds,
        token_seconds=seconds,
        interval_seconds=seconds,
        unready_failures=st.integers(1, 100),
        wedged_seconds=seconds,
    ),
    drain=st.builds(
        Drain,
        endpoint_seconds=st.integers(0, 3600),
        stream_seconds=seconds,
        grace_seconds=seconds,
    ),
    runtime_port=ports,
    expected=st.builds(Expected, kv_blocks=counts, kv_tokens=counts, max_model_len=counts),
    requires=st.builds(Requires, files=st.lists(texts.map("f{}".format), max_size=3).map(tuple)),
    group=st.none() | groups,
    front=st.none() | st.builds(Front, quiet_seconds=seconds, settle_seconds=st.integers(0, 3600)),
)

PLAN = launch_plan(env={"B": "2", "A": "1"})


def plan_or_sentence(data: bytes) -> LaunchPlan | str:
    """What `data` decodes to, or why not."""
    try:
        return contract.decode(data)
    except ContractError as error:
        return str(error)


def check(outcome: LaunchPlan | str) -> None:
    """A plan is one that could be written again; a refusal is one line for people."""
    if isinstance(outcome, LaunchPlan):
        assert contract.decode(contract.encode(outcome)) == outcome
    else:
        assert outcome.startswith("the launch plan ")
        assert "\n" not in outcome


@given(plans)
def test_a_plan_survives_the_way(plan: LaunchPlan) -> None:
    assert contract.decode(contract.encode(plan)) == plan


@given(plans)
def test_its_json_is_canonical(plan: LaunchPlan) -> None:
    data = contract.encode(plan)

    assert contract.encode(contract.decode(data)) == data
    assert json.dumps(
        json.loads(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ) == json.dumps(json.loads(data), separators=(",", ":"), ensure_ascii=False)


@given(st.binary() | st.text().map(str.encode))
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(contract.encode(PLAN).replace(b"tiny", b"\xff"))
@example(contract.encode(PLAN).replace(b'"version":1', b'"version":1e400'))
def test_bytes_are_a_plan_or_one_sentence(data: bytes) -> None:
    check(plan_or_sentence(data))


@given(st.data())
def test_a_damaged_plan_is_refused_in_one_sentence_or_still_a_plan(data: st.DataObject) -> None:
    text = contract.encode(data.draw(plans))
    at = data.draw(st.integers(0, len(text) - 1))
    check(plan_or_sentence(text[:at] + data.draw(st.binary(max_size=3)) + text[at + 1 :]))


@given(st.integers().filter(lambda version: version != CONTRACT_VERSION))
def test_another_version_is_named_whatever_else_is_in_the_plan(version: int) -> None:
    outcome = plan_or_sentence(f'{{"version": {version}, "orders": [1, 2]}}'.encode())

    assert outcome == (
        f"the launch plan has contract version {version}, this runtime speaks version "
        f"{CONTRACT_VERSION}; use the runtime image of the operator's own release"
    )


@given(plans, st.sampled_from([-1, 0, 70_000]))
def test_what_a_runtime_would_refuse_is_not_written(plan: LaunchPlan, port: int) -> None:
    with pytest.raises(ContractError):
        contract.encode(msgspec.structs.replace(plan, runtime_port=port))
