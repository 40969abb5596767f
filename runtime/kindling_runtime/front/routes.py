"""Which routes of vLLM's HTTP server are served: a list of what may pass, not of what may not.

vLLM 0.33 asks for an API key below /v1, /v2, /inference and /cohere only
(entrypoints/serve/middleware/authenticate.py); /invocations, /tokenize, /scale_elastic_ep, /sleep
and whatever a plugin adds are open to everybody who reaches the port.
"""

import enum
import re
from typing import Final


class Kind(enum.Enum):
    """What a route is to the front."""

    WORK = enum.auto()
    """A client's: counted, waited for, refused once the pod leaves."""
    WATCH = enum.auto()
    """Read by monitoring: answered to the end, and no sign of a client."""
    HEALTH = enum.auto()
    """Asked by routers whether to send: answered until requests are refused, and no client's."""


_WORK: Final = {
    "/v1/models": "GET",
    "/v1/completions": "POST",
    "/v1/chat/completions": "POST",
    "/v1/responses": "POST",
    "/v1/messages": "POST",
    "/v1/messages/count_tokens": "POST",
    "/v1/audio/transcriptions": "POST",
    "/v1/audio/translations": "POST",
}
_BY_NAME: Final = (
    ("GET", re.compile(r"/v1/models/.+")),
    ("GET", re.compile(r"/v1/responses/[^/]+")),
    ("POST", re.compile(r"/v1/responses/[^/]+/cancel")),
)
"""Routes with a name in them; a model's name may hold slashes."""
_KINDS: Final = {
    **{(method, path): Kind.WORK for path, method in _WORK.items()},
    # A browser's question whether it may ask; vLLM's CORS layer answers it.
    **{("OPTIONS", path): Kind.WORK for path in _WORK},
    ("GET", "/metrics"): Kind.WATCH,
    ("GET", "/health"): Kind.HEALTH,
}


def kind_of(method: str, path: str) -> Kind | None:
    """What a request is, None where it may not pass. `path` as the router below will read it."""
    found = _KINDS.get((method, path))
    if found is not None:
        return found
    for allowed, pattern in _BY_NAME:
        if method == allowed and pattern.fullmatch(path):
            return Kind.WORK
    return None
