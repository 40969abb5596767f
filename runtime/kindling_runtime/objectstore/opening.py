"""A client of a bucket, and what its errors mean.

Credentials are those that obstore finds by itself: IRSA (AWS_WEB_IDENTITY_TOKEN_FILE), EKS Pod
Identity (AWS_CONTAINER_CREDENTIALS_FULL_URI), GKE's metadata server, Azure workload identity
(AZURE_FEDERATED_TOKEN_FILE). It renews them five minutes before their end.
"""

import os
import re
from datetime import timedelta
from typing import Any, Final

from obstore import exceptions as told
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

_STATUS: Final = re.compile(r"status code: (\d{3})")
_PASSING: Final = frozenset({408, 425, 429})
_ISSUER_UNHEARD: Final = "IDPCommunicationError"
"""STS could not ask the cluster's issuer: status 400, to be tried again (its API reference)."""
_PLAIN_HTTP: Final = {
    "s3": "AWS_ALLOW_HTTP",
    "gs": "GOOGLE_ALLOW_HTTP",
    "az": "AZURE_ALLOW_HTTP",
}
_TOKEN_SECONDS: Final = 30.0


def opened(
    scheme: str, bucket: str, *, connect: float, silence: float, whole: float
) -> ObjectStore:
    """A client for `s3`, `gs` or `az`; a container of Azure may name its account, as in
    `container@account`.

    A request ends after `connect` seconds without a connection, `silence` without a byte, and
    `whole` in any case. It is made once: what is tried again is the caller's to say.
    """
    client: Any = {
        # Options that are given in code replace those of the environment, this one among them.
        "allow_http": os.environ.get(_PLAIN_HTTP[scheme]) == "true",
        "connect_timeout": timedelta(seconds=connect),
        "read_timeout": timedelta(seconds=silence),
        "timeout": timedelta(seconds=whole),
    }
    # obstore's own attempts are for the tokens that it fetches.
    retry: Any = {"max_retries": 1, "retry_timeout": timedelta(seconds=_TOKEN_SECONDS)}
    match scheme:
        case "s3":
            return S3Store(bucket, client_options=client, retry_config=retry)
        case "gs":
            return GCSStore(bucket, client_options=client, retry_config=retry)
        case _:
            container, _, account = bucket.partition("@")
            more: Any = {"account_name": account.partition(".")[0]} if account else {}
            # AKS ends it with a slash, and obstore would begin the path with another one.
            if authority := os.environ.get("AZURE_AUTHORITY_HOST"):
                more["authority_host"] = authority.rstrip("/")
            return AzureStore(container, client_options=client, retry_config=retry, **more)


def status_of(error: Exception) -> int:
    """The HTTP status of an error of obstore; 0 where there is none."""
    match error:
        case told.PermissionDeniedError() | told.UnauthenticatedError():
            return 403
        case told.NotFoundError():
            return 404
        case told.UnknownConfigurationKeyError() | told.InvalidPathError():
            return 400
    # Of a listing, and of the token service, the status stands in the text only.
    status = _STATUS.search(str(error))
    return int(status[1]) if status else 0


def is_final(code: int, text: str) -> bool:
    """Whether asking again would be answered the same; `text` is the error's."""
    return 400 <= code < 500 and code not in _PASSING and _ISSUER_UNHEARD not in text
