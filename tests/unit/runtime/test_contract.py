"""The contract's own words and bytes: what an operator writes and what a refusal says."""

import pytest
from tests.support.engine.plans import launch_plan

from kindling_runtime import contract
from kindling_runtime.contract import (
    ContractError,
)

PLAN = launch_plan(env={"B": "2", "A": "1"})
# Written out, because a change of any byte re-plans nothing but restarts every pod that is rendered
# anew: it must be wanted.
JSON = (
    b'{"drain":{"endpointSeconds":5,"graceSeconds":20,"streamSeconds":30},'
    b'"engine":{"argv":["vllm","serve","/models"],"env":{"A":"1","B":"2"},"port":8000},'
    b'"expected":{"kvBlocks":null,"kvTokens":null,"maxModelLen":null},"front":null,"group":null,'
    b'"model":{"name":"custom","servedName":"tiny"},'
    b'"probe":{"intervalSeconds":15,"startupSeconds":600,'
    b'"stuckSeconds":60,"tokenSeconds":30,"unreadyFailures":2,"wedgedSeconds":60},'
    b'"requires":{"device":null,"files":["config.json"],"memory":0,"packages":[],'
    b'"sharedMemory":0,"tensors":[]},"runtimePort":9400,"version":3,'
    b'"weights":{"fetch":null,"path":"/models","uri":"pvc://models/tiny","use":null}}'
)


def test_the_json_of_a_plan() -> None:
    assert contract.encode(PLAN) == JSON


def test_a_plan_of_only_what_has_no_default() -> None:
    data = (
        b'{"version":3,"model":{"name":"custom","servedName":"tiny"},'
        b'"weights":{"uri":"pvc://models/tiny","path":"/models"},'
        b'"engine":{"argv":["vllm","serve","/models"],"env":{"A":"1","B":"2"}},'
        b'"probe":{"startupSeconds":600},'
        b'"drain":{"endpointSeconds":5,"streamSeconds":30,"graceSeconds":20}}'
    )

    assert contract.decode(data) == PLAN


RELEASE = "use the runtime image of the operator's own release"
REFUSALS = {
    "another version": (
        JSON.replace(b'"version":3', b'"version":1'),
        "the launch plan has contract version 1, this runtime speaks version 3; " + RELEASE,
    ),
    "no version": (
        JSON.replace(b'"version":3,', b""),
        "the launch plan is wrong at its top level: object missing required field `version`; "
        f"{RELEASE} (contract version 3)",
    ),
    "an unknown field": (
        JSON.replace(b'"port"', b'"prot"'),
        "the launch plan is wrong at engine: object contains unknown field `prot`; "
        f"{RELEASE} (contract version 3)",
    ),
    "a wrong type": (
        JSON.replace(b'"streamSeconds":30', b'"streamSeconds":"30s"'),
        "the launch plan is wrong at drain.streamSeconds: expected `int`, got `str`; "
        f"{RELEASE} (contract version 3)",
    ),
    "an impossible number": (
        JSON.replace(b'"port":8000', b'"port":80000'),
        "the launch plan is wrong at engine.port: expected `int` <= 65535; "
        f"{RELEASE} (contract version 3)",
    ),
    "no command": (
        JSON.replace(b'["vllm","serve","/models"]', b"[]"),
        "the launch plan is wrong at engine.argv: expected `array` of length >= 1; "
        f"{RELEASE} (contract version 3)",
    ),
    "half a file": (
        JSON[:100],
        "the launch plan is not JSON: Input data was truncated; have the operator render it",
    ),
}


@pytest.mark.parametrize(("data", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusal(data: bytes, message: str) -> None:
    with pytest.raises(ContractError) as refusal:
        contract.decode(data)

    assert str(refusal.value) == message


def test_the_grace_period_of_a_pod_covers_every_wait() -> None:
    assert contract.termination_grace_seconds(PLAN.drain) == 5 + 30 + 20 + 1 + 5 + 5
