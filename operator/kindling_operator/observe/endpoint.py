"""Ask through a model's Service, and see in which of its new pods the answer was made.

A pod tells how often its engine has answered for the list of its models; one whose count rises
while we ask the Service is one that the Service leads to (docs/adr/0007).
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

import aiohttp
import msgspec

from kindling_operator.model.names import SERVICE, Key
from kindling_operator.model.objects import PodView
from kindling_operator.model.plan import Decision
from kindling_operator.model.snapshot import Answers, Snapshot
from kindling_operator.observe.fields import items, number, text
from kindling_runtime.contract import ENGINE_PORT, MODELS_PATH, RUNTIME_PORT, STATUS_PATH

CALL_SECONDS: Final = 3.0
"""For one request: an answer from inside the cluster takes milliseconds."""
ROUNDS: Final = 3
ASKED_EACH: Final = 4
"""Requests per pod behind the Service and round: of 98 rounds in 100 one reaches a given pod."""
ASKED_MOST: Final = 64
PODS_MOST: Final = 16
"""New pods whose counts are read; one that answers is enough."""
COUNTED_SECONDS: Final = 1.0
"""The runtime reads its engine's count at most twice a second, the engine counts afterwards."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask: `service` and `pods` are addresses, the latter by uid; all URLs end in a port.

    `behind` is how many pods the Service sends traffic to.
    """

    key: Key
    service: str
    pods: Mapping[str, str]
    behind: int


class _Told(msgspec.Struct, rename="camel"):
    """The part of a runtime's status that matters here."""

    models_answers: int | None = None


class _UnreachableError(Exception):
    """Nothing answers there; the text is a clause."""


def question(snapshot: Snapshot, decision: Decision) -> Question | None:
    """What to ask for a decision that waits for an answer; None without anybody to ask."""
    if not decision.ask or decision.current is None:
        return None
    behind = frozenset(snapshot.endpoints.get(decision.key, ()))
    asked = [
        pod
        for pod in snapshot.pods_of(decision.key)
        if pod.revision == decision.current.hash and pod.name in behind and pod.address
    ]
    service = _service(snapshot, decision.key)
    if service is None or not asked:
        return None
    return Question(decision.key, service, _addresses(asked[:PODS_MOST]), len(behind))


async def ask(asked: Question) -> Answers:
    """Ask until a new pod has answered, at most a minute; what stands in the way otherwise."""
    timeout = aiohttp.ClientTimeout(total=CALL_SECONDS)
    # A connection that is kept would go to the same pod each time.
    connector = aiohttp.TCPConnector(force_close=True, limit=ASKED_MOST)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        try:
            before = await _counts(session, asked)
            for _ in range(ROUNDS):
                await _ask_service(session, asked)
                await asyncio.sleep(COUNTED_SECONDS)
                after = await _counts(session, asked)
                answered = frozenset(uid for uid in after if _rose(before, after, uid))
                if answered:
                    return Answers(answered)
        except _UnreachableError as error:
            return Answers(problem=str(error))
    return Answers(
        problem=f"none of the answers at {asked.service}{MODELS_PATH} came from one of them yet:"
        " see whether something between Service and pods keeps them out"
    )


def runtimes_of(snapshot: Snapshot, key: Key) -> dict[str, str]:
    """The URL of each of a model's runtimes that may answer, by uid of the pod."""
    return _addresses([pod for pod in snapshot.pods_of(key) if pod.address and not pod.ended])


def _rose(before: Mapping[str, int | None], after: Mapping[str, int | None], uid: str) -> bool:
    """Whether a pod has answered meanwhile; one that counts nothing cannot be told apart."""
    was, now = before.get(uid), after[uid]
    return was is None or now is None or now > was


async def _ask_service(session: aiohttp.ClientSession, asked: Question) -> None:
    """One round of requests; raises _UnreachableError if none is answered."""
    count = min(ASKED_MOST, ASKED_EACH * max(1, asked.behind))
    tries = (_answered(session, asked.service + MODELS_PATH) for _ in range(count))
    found = await asyncio.gather(*tries)
    problems = [problem for problem in found if problem]
    if len(problems) == count:
        raise _UnreachableError(
            f"{asked.service} {problems[0]} when the operator asked: allow the operator's pods to"
            f" reach the model's at port {ENGINE_PORT}, or set proveEndpoint=false in the chart"
        )


async def _answered(session: aiohttp.ClientSession, url: str) -> str:
    """Why a URL gave no answer that a replica would give, "" if it did."""
    try:
        async with session.get(url) as response:
            return "" if response.status < 500 else f"answered HTTP {response.status}"
    except TimeoutError:
        return f"did not answer within {CALL_SECONDS:g} s"
    except (aiohttp.ClientError, OSError) as error:
        return f"gave no answer ({type(error).__name__})"


async def _counts(session: aiohttp.ClientSession, asked: Question) -> dict[str, int | None]:
    """What each pod has counted, None where it counts nothing; pods that are gone are left out.

    Raises _UnreachableError if none can be asked.
    """
    found = await asyncio.gather(*(_count(session, url) for url in asked.pods.values()))
    told = dict(zip(asked.pods, found, strict=True))
    counts = {uid: each for uid, each in told.items() if not isinstance(each, str)}
    if not counts:
        (url, *_), (why, *_) = asked.pods.values(), found
        raise _UnreachableError(
            f"{url} {why} when the operator asked: allow the operator's pods to reach the model's"
            f" at port {RUNTIME_PORT}, or set proveEndpoint=false in the chart"
        )
    return counts


async def _count(session: aiohttp.ClientSession, url: str) -> int | str | None:
    """What one pod has counted, or why it cannot be asked."""
    try:
        async with session.get(url + STATUS_PATH) as response:
            if response.status != 200:
                return f"answered HTTP {response.status}"
            return msgspec.json.decode(await response.read(), type=_Told).models_answers
    except TimeoutError:
        return f"did not answer within {CALL_SECONDS:g} s"
    except (aiohttp.ClientError, OSError) as error:
        return f"gave no answer ({type(error).__name__})"
    except msgspec.DecodeError:
        return "answered something else than a status"


def _service(snapshot: Snapshot, key: Key) -> str | None:
    """URL of the model's Service by its address: names need DNS, which may fail by itself."""
    uid = snapshot.models[key].metadata.uid
    for child in snapshot.children.get(key, ()):
        if (child.ref.kind, child.ref.name, child.owner_uid) == (SERVICE, key.name, uid):
            spec: Any = child.manifest.get("spec", {})
            port = next((number(each, "port") for each in items(spec, "ports")), 0)
            return _url(text(spec, "clusterIP"), port)
    return None


def _addresses(pods: list[PodView]) -> dict[str, str]:
    urls = {pod.uid: _url(pod.address, RUNTIME_PORT) for pod in pods}
    return {uid: url for uid, url in urls.items() if url is not None}


def _url(address: str, port: int) -> str | None:
    """http:// and the address in the form of its family; None for what is none ("None", "")."""
    try:
        found = ip_address(address)
    except ValueError:
        return None
    host = f"[{found}]" if isinstance(found, IPv6Address) else str(found)
    return f"http://{host}:{port}" if port else None
