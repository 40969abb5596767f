"""The vocabulary of the API: bounded field types and the rules that they bring with them.

A rule is written once and checked twice: the API server evaluates its CEL expression, and
`kindling plan -f`, which has no API server, evaluates the Python predicate. Both speak the same
sentence. Patterns are rules too, because the API server's own message for a `pattern` is a regular
expression and no sentence.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from kindling_operator.model import quantities

MAX_INT32: Final = 2**31 - 1
CANONICAL: Final = "canonical"
"""Key of a field's extra data: a function to the one spelling of values that mean the same."""
MAX_EXACT: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly (RFC 8259, section 6)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on one value of the spec, with the sentence for the user who broke it.

    `cel` sees the value as ``self``; `holds` gets the parsed value. A rule that compares with the
    stored object has ``oldSelf`` in `cel` and no `holds`. `path` is the field, relative to the
    value, that the API server shall name.
    The API server prints a scalar value by itself. A rule about several fields names theirs: each
    of `values`, a CEL expression and its Python twin, fills one ``%d`` or ``%s`` of `message`.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None = None
    path: str = ""
    values: tuple[tuple[str, Callable[[Any], Any]], ...] = ()

    def sentence(self, value: Any) -> str:
        """The message for this value."""
        return self.message % tuple(of(value) for _, of in self.values)


class Spec(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="camel",
):
    """Base of everything a user types: camelCase on the wire, unknown fields are errors."""

    rules: ClassVar[tuple[Rule, ...]] = ()


def doc(text: str) -> Meta:
    """The description of a field, as `kubectl explain` prints it."""
    return Meta(description=text)


def text(max_length: int, *rules: Rule) -> Meta:
    """Bounds and rules of a string that may not be empty."""
    return Meta(min_length=1, max_length=max_length, extra={"rules": rules})


def judged(*rules: Rule) -> Meta:
    """Rules of any value."""
    return Meta(extra={"rules": rules})


def matches(pattern: str, message: str) -> Rule:
    """A rule that a string matches a regular expression (RE2 and Python agree on it)."""
    compiled = re.compile(pattern, re.ASCII)
    return Rule(
        cel=f"self.matches(r'{pattern}')",
        message=message,
        holds=lambda value: compiled.fullmatch(value) is not None,
    )


BY_NAME: Final = Meta(
    extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
)
BY_MODALITY: Final = Meta(
    extra_json_schema={
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["modality"],
    }
)
AS_SET: Final = Meta(extra_json_schema={"x-kubernetes-list-type": "set"})
ATOMIC: Final = Meta(extra_json_schema={"x-kubernetes-list-type": "atomic"})

SUBDOMAIN: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
"""The name of most objects: labels of DNS-1123 with dots between, at most 253 characters."""

Count = Annotated[int, Meta(ge=1, le=MAX_INT32)]
SmallCount = Annotated[int, Meta(ge=1, le=4096)]
ByteCount = Annotated[int, Meta(ge=1, le=MAX_EXACT)]
Text = Annotated[str, text(512)]
Revision = Annotated[str, text(128)]

GroupName = Annotated[
    str,
    text(
        63,
        matches(
            "^[a-z0-9]([-a-z0-9_]*[a-z0-9])?$",
            "use lower-case letters, digits, '-' and '_', as in full_attention",
        ),
    ),
]
ObjectName = Annotated[
    str,
    text(
        253,
        matches(
            f"^{SUBDOMAIN}$",
            "name an object of this namespace: lower-case letters, digits, '-' and '.'",
        ),
    ),
]
SecretKey = Annotated[
    str,
    text(
        253,
        matches(
            "^[-._a-zA-Z0-9]+$",
            "name one key of the object: letters, digits, '-', '_' and '.'",
        ),
    ),
]


def _time(*, least: str, units: str) -> Meta:
    """The rule of a duration. None of ours may be zero: a deadline of 0s has passed at once."""
    return text(
        32,
        Rule(
            cel=f"self.matches(r'{quantities.DURATION_PATTERN}')"
            f" && duration(self) >= duration('{least}')"
            f" && duration(self) <= duration('{quantities.MAX_DURATION}')",
            message=f"write a duration in {units}, of at least {least} and at most"
            f" {quantities.MAX_DURATION}",
            holds=lambda value: quantities.is_duration(value, least=least),
        ),
    )


_DURATION: Final = Meta(extra={CANONICAL: quantities.canonical_duration})
Duration = Annotated[
    str,
    _time(least="1s", units="hours, minutes and seconds, such as 1h30m or 45s"),
    _DURATION,
]
"""How long something may take; less than a second is a unit that was forgotten."""
Latency = Annotated[
    str, _time(least="1ms", units="seconds and milliseconds, such as 2s or 60ms"), _DURATION
]
"""How long a token may take."""


def _amount(*, least: int, pattern: str, message: str) -> Meta:
    """The rule of a quantity, which is an integer or a string."""
    return judged(
        Rule(
            cel=f"type(self) == int ? self >= {least}"
            f" && self <= {quantities.quantity_bytes(quantities.MAX_QUANTITY)}"
            f" : self.size() <= 32 && self.matches(r'{pattern}')"
            f" && quantity(self).compareTo(quantity('{quantities.MAX_QUANTITY}')) <= 0",
            message=message,
            holds=lambda value: quantities.is_quantity(value, positive=least > 0),
        )
    )


_INT_OR_STRING: Final = Meta(
    extra_json_schema={"x-kubernetes-int-or-string": True},
    extra={CANONICAL: quantities.canonical_quantity},
)

Quantity = Annotated[
    int | Annotated[str, text(32)],
    _INT_OR_STRING,
    _amount(
        least=1,
        pattern=quantities.POSITIVE_PATTERN,
        message="write an amount greater than zero with its unit, such as 80Gi, of at most"
        f" {quantities.MAX_QUANTITY}",
    ),
]
QuantityOrZero = Annotated[
    int | Annotated[str, text(32)],
    _INT_OR_STRING,
    _amount(
        least=0,
        pattern=quantities.QUANTITY_PATTERN,
        message="write an amount with its unit, such as 200Gi, of at most"
        f" {quantities.MAX_QUANTITY}, or 0",
    ),
]


class ObjectRef(Spec, frozen=True, kw_only=True):
    """An object of the same namespace."""

    name: Annotated[ObjectName, doc("Name of the object, in the same namespace.")]
