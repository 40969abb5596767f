"""Whose fields an object has, as metadata.managedFields tells."""

from collections.abc import Mapping
from typing import Any

from kindling_operator.model.names import FIELD_MANAGER


def created_entry(body: Mapping[str, Any]) -> int | None:
    """The place of our creation in the list, None where there is none or it has been claimed.

    A POST is recorded as an "Update"; its fields would stay after an apply that leaves them out.
    """
    metadata = body.get("metadata")
    entries = metadata.get("managedFields") if isinstance(metadata, Mapping) else None
    if not isinstance(entries, (list, tuple)):
        return None
    for place, entry in enumerate(entries):
        if (
            isinstance(entry, Mapping)
            and entry.get("manager") == FIELD_MANAGER
            and entry.get("operation") == "Update"
            and not entry.get("subresource")
        ):
            return place
    return None
