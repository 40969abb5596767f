"""What can go wrong between the operator and the API server, by what to do about it."""

import asyncio
import json
from typing import Final

import aiohttp
from kubernetes.aio.dynamic.exceptions import DynamicApiError

from kindling_operator.model.outcome import Retry

MESSAGE_CHARACTERS: Final = 500
"""The API server repeats whole objects in some messages; this much is enough to act on."""


class KubeError(Exception):
    """A request that did not succeed; the text is one sentence."""

    reason = "Error"


class NotFoundError(KubeError):
    """404: the object, its namespace or its kind does not exist."""

    reason = "NotFound"


class ConflictError(KubeError):
    """409: the object changed, or was made again, since it was observed. Look again, then retry."""

    reason = "Conflict"


class InvalidError(KubeError):
    """400, 413, 422: the request is wrong; the same request never succeeds."""

    reason = "Invalid"


class ForbiddenError(KubeError):
    """403: the operator lacks a right, or a quota or admission policy says no."""

    reason = "Forbidden"


class ExpiredError(KubeError):
    """410: the place in a list or stream is forgotten; list again."""

    reason = "Expired"


class TooManyRequestsError(KubeError):
    """429: the server asks for patience; `retry_after` in seconds, None if it does not say."""

    reason = "TooManyRequests"

    def __init__(self, message: str, *, retry_after: float | None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnavailableError(KubeError):
    """5xx, no connection, no answer in time: whether a write took effect is unknown.

    401 too: the operator's token is being replaced, or who reviews tokens is away, and no user can
    do anything about it.
    """

    reason = "Unavailable"


class FencedError(KubeError):
    """Not sent: this process is not, or is no longer surely, the leader."""

    reason = "Fenced"


_BY_STATUS: Final[dict[int, type[KubeError]]] = {
    400: InvalidError,
    401: UnavailableError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
}


def translate(error: BaseException, *, what: str) -> KubeError:
    """The error class for anything that a request raised; `what` names the request."""
    if isinstance(error, KubeError):
        return error
    if isinstance(error, DynamicApiError):
        return _of_answer(error, what)
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return UnavailableError(f"{what}: no answer in time")
    if isinstance(error, (aiohttp.ClientError, OSError)):
        return UnavailableError(f"{what}: {error or type(error).__name__}")
    raise error


def retry_of(error: KubeError) -> Retry:
    """When the queue should try again what ended with this error."""
    message = str(error)
    if isinstance(error, TooManyRequestsError):
        return Retry(error.reason, message, after=error.retry_after or 1.0)
    if isinstance(error, FencedError):
        return Retry(error.reason, message, counts=False)
    return Retry(error.reason, message)


def _of_answer(error: DynamicApiError, what: str) -> KubeError:
    status = int(error.status or 0)
    message = f"{what}: {_message(error)}"
    if status == 429:
        return TooManyRequestsError(message, retry_after=_retry_after(error))
    return _BY_STATUS.get(status, UnavailableError)(message)


def _message(error: DynamicApiError) -> str:
    try:
        text = str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError):
        text = f"{error.status} {error.reason}"
    return text[:MESSAGE_CHARACTERS]


def _retry_after(error: DynamicApiError) -> float | None:
    value = (error.headers or {}).get("Retry-After", "")
    return float(value) if value.isdecimal() else None
