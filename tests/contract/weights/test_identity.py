"""Downloads by workload identity: IRSA, EKS Pod Identity, GKE's and Azure's, from real stores.

The token services are of the tests (`tests/support/stores/tokens.py`); the stores know nobody but
whom these gave credentials, for as long as they are good.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from tests.support.stores.real import RealStore
from tests.support.stores.tokens import Tokens
from tests.support.weights import fetching as runs
from tests.support.weights.fetching import published
from tests.support.weights.store import files_of
from tests.support.weights.way import Way, reached

from kindling_runtime.contract import STATUS_PATH, ExitCode, Reason
from kindling_runtime.weights.errors import FetchError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(60, func_only=True)]

MIB: Final = 1 << 20
AHEAD: Final = 300
"""Seconds before their end at which obstore renews credentials (object_store, client/token.rs)."""


@dataclass(frozen=True)
class Kind:
    """One kind of identity, and what is told when its cloud does not know the pod."""

    store: str
    given: Callable[[Tokens], Mapping[str, str]]
    stranger: Callable[[Tokens], Mapping[str, str]]
    refusal: str


KINDS: Final = {
    "IRSA": Kind(
        "s3",
        Tokens.irsa,
        lambda tokens: tokens.irsa("https://kubernetes.default.svc"),
        "AWS refuses the pod's identity arn:aws:iam::111122223333:role/reader "
        "(InvalidIdentityToken: Incorrect token audience); let the role's trust policy, or the Pod "
        "Identity association, name the cluster and the pod's ServiceAccount",
    ),
    "EKS Pod Identity": Kind(
        "s3",
        Tokens.pod_identity,
        lambda tokens: tokens.pod_identity("https://kubernetes.default.svc"),
        "AWS refuses the pod's identity ([req-1]: (AccessDeniedException): Unauthorized Exception! "
        "EKS does not have permissions to assume the associated role., fault: client); let the "
        "role's trust policy, or the Pod Identity association, name the cluster and the pod's "
        "ServiceAccount",
    ),
    "GKE": Kind(
        "gs",
        Tokens.gke,
        Tokens.gke,
        "Google Cloud refuses the pod's identity (Unable to generate access token; IAM returned "
        "403 Forbidden: Permission 'iam.serviceAccounts.getAccessToken' denied on resource); let "
        "the pod's ServiceAccount use the service account that it is annotated with",
    ),
    "AKS": Kind(
        "az",
        Tokens.aks,
        lambda tokens: tokens.aks("https://kubernetes.default.svc"),
        "Microsoft Entra ID refuses the pod's identity 66666666-7777-8888-9999-000000000000 "
        "(AADSTS700213: No matching federated identity record found for presented assertion); give "
        "the identity a federated credential for the cluster's issuer and the pod's ServiceAccount",
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
async def way(
    kind: Kind, store_of: Callable[[str], RealStore], tmp_path: Path
) -> AsyncIterator[Way]:
    async with reached(store_of(kind.store), tmp_path) as found:
        found.identity = kind.given(found.tokens)
        yield found


@pytest.mark.parametrize("told", [True, False], ids=["as they said", "before their time"])
async def test_credentials_that_end_during_a_download_are_renewed_and_it_goes_on(
    told: bool, way: Way, tmp_path: Path
) -> None:
    way.tokens.lifetime = AHEAD + 2 if told else 3600
    way.tokens.good_for = 2
    files = files_of(16 * MIB)
    await way.fill(files)
    plan = runs.fetch_plan(way.uri, tmp_path / "volume")
    way.relay.hang_after(2 * MIB)
    async with runs.fetching(plan, tmp_path / "a", way.environment) as run:
        await way.stuck(run)
        status = await _status(run)
        first = len(way.tokens.given)
        await asyncio.sleep(way.tokens.good_for + 1)
        way.tokens.good_for = 60
        way.relay.release()
        assert await run.exit_status() == 0, run.log
    assert published(tmp_path / "volume") == files
    assert len(way.tokens.given) > first > 0
    _keeps_secrets(way, run, status)


async def test_a_token_service_that_refuses_ends_it_in_one_sentence_with_its_own_code(
    kind: Kind, way: Way, tmp_path: Path
) -> None:
    way.identity = kind.stranger(way.tokens)
    way.tokens.refuses = kind.stranger is kind.given
    plan = runs.fetch_plan(way.uri, tmp_path / "volume")
    run = await runs.fetched(plan, tmp_path / "a", way.environment)
    assert run.process.returncode == ExitCode.PREFLIGHT
    assert (run.reason, run.message) == (Reason.STORE_REFUSED, kind.refusal)
    assert way.tokens.given == []
    assert way.relay.connections == 0
    _keeps_secrets(way, run, "")


@pytest.mark.parametrize("kind", [KINDS["IRSA"]], ids=["IRSA"])
async def test_an_issuer_that_does_not_answer_sts_is_waited_for(way: Way, tmp_path: Path) -> None:
    way.tokens.unheard = 1
    files = files_of(70_000)
    await way.fill(files)
    plan = runs.fetch_plan(way.uri, tmp_path / "volume")
    run = await runs.fetched(plan, tmp_path / "a", way.environment)
    assert run.process.returncode == 0, run.log
    assert way.tokens.unheard == 0
    assert published(tmp_path / "volume") == files


async def test_a_store_is_not_asked_over_plain_http(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = way.store.environment(way.relay.port)
    plain = {name: url.replace("https:", "http:") for name, url in address.items()}
    way.identity = {**way.identity, **plain}
    with pytest.raises(FetchError) as refused:
        await way.client(monkeypatch, way.uri).listing()
    assert str(refused.value) == f"{way.uri} is not asked over plain http; name an https endpoint"
    assert way.relay.connections == 0


async def _status(run: runs.Fetching) -> str:
    url = f"http://127.0.0.1:{run.plan.runtime_port}{STATUS_PATH}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.text()


def _keeps_secrets(way: Way, run: runs.Fetching, status: str) -> None:
    """Neither the pod's tokens nor what was given for them is told to anybody."""
    pods = [path.read_text() for path in way.tokens.folder.glob("token-*")]
    words = (run.folder / "termination-log").read_text()
    for secret in (*pods, *way.tokens.given):
        assert secret not in run.log + words + status
