"""The body of a server-side apply: JSON that the API server's YAML parser reads as it is meant."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

CONTENT_TYPE: Final = "application/apply-patch+yaml; charset=utf-8"
"""With a parameter, which the API server cuts off, the client sends text as it is; else it makes
JSON itself, with characters beyond the first 65,536 as two surrogates, which YAML refuses."""

_ESCAPED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""What JSON may hold and YAML may not, or takes for the end of a line (YAML 1.1, section 5.1)."""


def apply_text(body: Mapping[str, Any]) -> str:
    """An object as text; raises ValueError for numbers that JSON does not have."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
