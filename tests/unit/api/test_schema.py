"""The generated schema: bounded, described, structural, and complete."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta
from msgspec import inspect as mi
from tests.support.model_types import all_rules

from kindling_operator.model.api import InferenceModelSpec
from kindling_operator.model.fields import Rule, Spec, doc
from kindling_operator.model.rules import spec_problem
from kindling_operator.plan.unsupported import UNSUPPORTED
from kindling_operator.schema.crd import crd, root_schema
from kindling_operator.schema.files import generated_files
from kindling_operator.schema.reference import reference_page
from kindling_operator.schema.structural import Schema, constant_message, paragraph, schema_of

SPEC_PATHS = ("spec", "status")


def nodes(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Every schema at and below this one, with its path."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from nodes(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[]")


ALL = dict(node for part in SPEC_PATHS for node in nodes(root_schema()["properties"][part], part))
FIELDS = {path: schema for path, schema in ALL.items() if not path.endswith("[]")}


@pytest.mark.parametrize("path", FIELDS)
def test_a_field_is_described_in_sentences(path: str) -> None:
    text = FIELDS[path]["description"]
    assert text.endswith((".", "?"))
    assert text == paragraph(text)


def test_a_field_that_is_refused_says_so_to_kubectl_explain() -> None:
    told = {
        path for path, schema in FIELDS.items() if "this version" in schema["description"].lower()
    }

    assert told == {field.field for field in UNSUPPORTED}


def test_every_duration_refuses_nothing() -> None:
    """A deadline of 0s has passed at once."""
    rules = {
        path: [rule["rule"] for rule in schema.get("x-kubernetes-validations", ())]
        for path, schema in ALL.items()
    }
    durations = {path: each for path, each in rules.items() if "duration(self)" in str(each)}

    assert durations.keys() >= {"spec.rollout.progressDeadline", "spec.scaling.scaleToZeroAfter"}
    assert [
        path for path, each in durations.items() if "duration(self) >= duration('1" not in str(each)
    ] == []


def test_every_string_list_map_and_number_has_bounds() -> None:
    unbounded = [path for path, schema in ALL.items() if not _bounded(schema)]
    assert unbounded == []


def _bounded(schema: Schema) -> bool:
    match schema.get("type"):
        case "string":
            return "maxLength" in schema or "enum" in schema
        case "array":
            return "maxItems" in schema
        case "integer":
            return "minimum" in schema and "maximum" in schema
        case "object" if "additionalProperties" in schema:
            return "maxProperties" in schema
        case _:
            return True


def test_every_list_says_how_it_merges() -> None:
    lists = {path: schema for path, schema in ALL.items() if schema.get("type") == "array"}
    assert {schema["x-kubernetes-list-type"] for schema in lists.values()} == {
        "map",
        "set",
        "atomic",
    }
    for path, schema in lists.items():
        if schema["x-kubernetes-list-type"] == "map":
            keys = set(schema["x-kubernetes-list-map-keys"])
            assert keys <= set(schema["items"]["required"]), path


def test_nothing_is_nullable_a_reference_or_open() -> None:
    forbidden = {"nullable", "$ref", "anyOf", "oneOf", "title", "pattern"}
    for path, schema in ALL.items():
        assert not forbidden & set(schema), path
        assert schema.get("additionalProperties") is not True, path


def test_status_has_no_defaults() -> None:
    assert [p for p, s in ALL.items() if p.startswith("status") and "default" in s] == []


def test_the_defaults_are_those_of_the_types() -> None:
    """An object with every default written out is the same spec as one with none of them."""
    written = {"model": {"name": "flint"}} | _defaults(root_schema()["properties"]["spec"])
    written["model"] = {"name": "flint", "checkpoint": "Auto"}
    smallest = msgspec.convert({"model": {"name": "flint"}}, InferenceModelSpec)
    assert msgspec.convert(written, InferenceModelSpec) == smallest


def _defaults(schema: Schema) -> dict[str, Any]:
    """What the API server fills in."""
    filled = {}
    for name, part in schema.get("properties", {}).items():
        if "default" in part:
            filled[name] = part["default"]
            if part.get("type") == "object":
                filled[name] = part["default"] | _defaults(part)
    return filled


def test_an_autoscaler_can_read_the_smallest_object() -> None:
    version = crd()["spec"]["versions"][0]
    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    assert ALL["spec.replicas"]["default"] == 1


def test_the_columns_are_those_of_the_docs() -> None:
    columns = crd()["spec"]["versions"][0]["additionalPrinterColumns"]
    narrow = [c["name"] for c in columns if c["priority"] == 0]
    assert narrow == ["Ready", "Replicas", "Plan", "Cache-Hit", "Endpoint", "Age"]
    assert [c["name"] for c in columns if c["priority"] == 1] == ["GPU", "Context", "Reason"]


def test_output_depends_on_the_code_alone() -> None:
    assert generated_files() == generated_files()


class Bare(Spec, frozen=True, kw_only=True):
    """A struct with a field that nobody described."""

    word: Annotated[str, Meta(max_length=3)]


class Endless(Spec, frozen=True, kw_only=True):
    """A struct with a string of any length."""

    word: Annotated[str, doc("A word.")]


class Unmerged(Spec, frozen=True, kw_only=True):
    """A struct with a list that does not say how it merges."""

    words: Annotated[
        tuple[Annotated[str, Meta(max_length=3)], ...], Meta(max_length=3), doc("Words.")
    ]


class EndlessList(Spec, frozen=True, kw_only=True):
    """A struct with a list of any length."""

    words: Annotated[tuple[Annotated[str, Meta(max_length=3)], ...], doc("Words.")]


class Mixed(Spec, frozen=True, kw_only=True):
    """A struct with a field of either of two types."""

    either: Annotated[int | bool, doc("Either.")]


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Bare, "word has no description"),
        (Endless, "a string without max_length"),
        (Unmerged, "words does not say how the list merges"),
        (EndlessList, "a list without max_length"),
        (Mixed, "a CRD cannot hold one of"),
    ],
)
def test_a_careless_field_does_not_get_into_the_crd(kind: type[Spec], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        schema_of(mi.type_info(kind))


def test_a_message_with_values_has_a_constant_twin() -> None:
    rule = Rule(cel="true", message="%s has `minReplicas` %d of `maxReplicas: %d`")
    assert constant_message(rule) == "VALUE has `minReplicas` N of `maxReplicas: N`"


def test_the_reference_has_whole_sentences() -> None:
    """Every rule's, with a word in the place of each value."""
    page = reference_page()
    for rule in all_rules(mi.type_info(InferenceModelSpec)):
        places = len(re.findall("%[ds]", rule.message))
        said = constant_message(rule)
        assert len(re.findall(r"\b(N|VALUE)\b", said)) == places, said
        assert f"* {said}\n" in page or f"*{said}*." in page, said


def test_each_message_has_as_many_values_as_places() -> None:
    for rule in all_rules(mi.type_info(InferenceModelSpec)):
        places = rule.message.count("%d") + rule.message.count("%s")
        assert places == len(rule.values), rule.message


def test_only_transition_rules_lack_a_predicate() -> None:
    for rule in all_rules(mi.type_info(InferenceModelSpec)):
        assert (rule.holds is None) == ("oldSelf" in rule.cel), rule.message


def test_a_spec_made_in_code_is_judged_too() -> None:
    spec = msgspec.convert({"model": {"name": "flint"}}, InferenceModelSpec)
    assert spec_problem(spec) is None
    assert spec_problem(msgspec.structs.replace(spec, model=_custom_without_architecture())) == (
        "spec.model: `name: custom` needs the architecture in `custom`: copy it from config.json"
    )


def _custom_without_architecture() -> Any:
    model = msgspec.convert({"model": {"name": "custom"}}, InferenceModelSpec).model
    assert model.custom is None
    return model
