"""What a deployment asks of the tier: the fields of its object in vLLM's `secondary_tiers`."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from kindling_runtime.kv.policy.admission import Admission

MIB: Final = 1 << 20
Seconds = Annotated[float, Meta(gt=0, le=600)]
Count = Annotated[int, Meta(ge=1, le=1024)]
Bytes = Annotated[int, Meta(ge=0)]


class Sharing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose chunks are read and written: of one namespace of a cluster, or of all that may write to
    the bucket."""

    cluster: str = ""
    namespace: str = ""
    bucket: bool = False


class Deadlines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds after which something has not succeeded: the search for one prompt, the load of one,
    the write of one object. Chunks wait at most `hold` for others of their object."""

    search: Seconds = 1.0
    load: Seconds = 10.0
    store: Seconds = 30.0
    hold: Seconds = 5.0


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests at once, and bytes of memory that reads and writes may take at once."""

    questions: Count = 64
    reads: Count = 16
    writes: Count = 8
    read_bytes: Annotated[int, Meta(ge=MIB)] = 128 * MIB
    write_bytes: Annotated[int, Meta(ge=MIB)] = 128 * MIB


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of it. `weights` is the digest or commit of the weights; `max_bytes` and `max_age` (in
    seconds) bound what the deployment keeps in the bucket, 0 does not. A load may take `margin`
    times as long as a recompute."""

    uri: Annotated[str, Meta(min_length=1, max_length=512)]
    weights: Annotated[str, Meta(min_length=1, max_length=512)]
    sharing: Sharing = Sharing()
    salt: str = ""
    model: str = ""
    admission: Admission = Admission.SECOND_USE
    deadlines: Deadlines = Deadlines()
    limits: Limits = Limits()
    margin: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    max_bytes: Bytes = 0
    max_age: Annotated[int, Meta(ge=0)] = 0


def settings(told: dict[str, Any]) -> Settings:
    """Of the fields of a tier; raises ValueError with the place of what is wrong."""
    try:
        return msgspec.convert(told, Settings)
    except msgspec.ValidationError as error:
        raise ValueError(f"object tier of the KV cache: {error}") from error
