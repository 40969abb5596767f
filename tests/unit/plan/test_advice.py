"""No message sends a user to a field that the next message would refuse."""

import re
from typing import Final

from tests.support.messages import texts
from tests.support.spec_fields import REFUSED

from kindling_operator.model.api import InferenceModelSpec
from kindling_operator.model.parse import ParsedModel, parse
from kindling_operator.plan.unsupported import UNSUPPORTED

_CLAUSE: Final = re.compile(r"[:;,](?=\s)|\.(?=\s|$)")
_ADVICE: Final = re.compile(
    r"\b(use|set|write|give|add|choose|take|name|raise|lower|correct|create|install|switch)\b",
    re.IGNORECASE,
)


def refused_specs() -> list[InferenceModelSpec]:
    """A spec for each field that is refused, which asks for it."""
    found = []
    remote = {"model": {"weights": {"uri": "hf://org/model"}}}
    for patch in (*REFUSED.values(), remote):
        base = {"model": {"name": "flint"}}
        spec = {**base, **patch, "model": {**base["model"], **patch.get("model", {})}}
        model = parse({"metadata": {"namespace": "ml", "name": "x", "uid": "u"}, "spec": spec})
        assert isinstance(model, ParsedModel), model
        found.append(model.spec)
    return found


def refused_words() -> set[str]:
    """What a user would write to be refused: a field, or a field and its value."""
    specs = refused_specs()
    words = set()
    for field in UNSUPPORTED:
        values = {field.given(spec) for spec in specs} - {None}
        assert values, f"no spec asks for {field.field}"
        words |= {field.field if not value else f"{field.field} {value}" for value in values}
    return words


def sent_to(text: str, words: set[str]) -> list[str]:
    """Those of `words` that a clause of the text advises to use."""
    return [
        word
        for clause in _CLAUSE.split(text)
        for word in words
        if (place := clause.find(word)) >= 0
        and not clause[place + len(word) :][:1].isalnum()
        and _ADVICE.search(clause[:place])
    ]


def test_what_counts_as_advice() -> None:
    words = {"spec.scaling", "spec.endpoint.gateway InferencePool"}

    assert sent_to("Nothing; set spec.scaling to let it choose.", words) == ["spec.scaling"]
    assert sent_to("use spec.scaling.maxReplicas instead", words) == ["spec.scaling"]
    assert sent_to("install it if spec.endpoint.gateway InferencePool is wanted", words)
    assert sent_to("spec.scaling is not supported: remove it and set spec.replicas", words) == []
    assert sent_to("spec.scaling is set", words) == []
    assert sent_to("use spec.endpoint.gateway Router", words) == []


def test_no_message_sends_to_a_field_that_is_refused() -> None:
    words = refused_words()

    assert "spec.scaling" in words
    assert {text: to for text in texts() if (to := sent_to(text, words))} == {}
