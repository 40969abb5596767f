"""What a request raised, by what to do about it."""

import json
from typing import Any

import aiohttp
import pytest
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.dynamic.exceptions import DynamicApiError

from kindling_operator.kube.errors import (
    ConflictError,
    ExpiredError,
    FencedError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
    retry_of,
    translate,
)


def answer(status: int, message: str = "no", **headers: str) -> DynamicApiError:
    error = ApiException(status=status, reason="Reason", body=json.dumps({"message": message}))
    error.headers = headers
    return DynamicApiError(error)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidError),
        (401, UnavailableError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (410, ExpiredError),
        (413, InvalidError),
        (422, InvalidError),
        (429, TooManyRequestsError),
        (500, UnavailableError),
        (503, UnavailableError),
    ],
)
def test_an_answer_has_its_class_and_its_message(status: int, kind: type[KubeError]) -> None:
    found = translate(answer(status, "quota exceeded"), what="apply Service ml/flint")

    assert type(found) is kind
    assert str(found) == "apply Service ml/flint: quota exceeded"


def test_a_message_that_repeats_an_object_is_cut() -> None:
    assert len(str(translate(answer(422, "x" * 10_000), what="apply"))) < 600


@pytest.mark.parametrize("body", ["<html>", "", "[]", '{"kind": "Status"}'])
def test_an_answer_that_is_not_the_api_servers_is_told_by_its_code(body: str) -> None:
    error = DynamicApiError(ApiException(status=502, reason="Bad Gateway", body=body))

    assert str(translate(error, what="list Pod")) == "list Pod: 502 Bad Gateway"


@pytest.mark.parametrize(
    "error", [TimeoutError(), aiohttp.ServerDisconnectedError(), ConnectionResetError("reset")]
)
def test_no_answer_is_unavailable(error: Exception) -> None:
    assert isinstance(translate(error, what="get Pod"), UnavailableError)


def test_a_bug_is_not_mistaken_for_an_error_of_the_api() -> None:
    with pytest.raises(ZeroDivisionError):
        translate(ZeroDivisionError(), what="get Pod")


RETRIES: list[tuple[Any, float, bool]] = [
    (answer(429, "slow down", **{"Retry-After": "7"}), 7.0, True),
    (answer(429, "slow down"), 1.0, True),
    (answer(409), 0.0, True),
    (answer(500), 0.0, True),
    (FencedError("closed"), 0.0, False),
]


@pytest.mark.parametrize(("error", "after", "counts"), RETRIES)
def test_when_to_try_again(error: Exception, after: float, counts: bool) -> None:
    found = retry_of(translate(error, what="apply"))

    assert (found.after, found.counts) == (after, counts)
