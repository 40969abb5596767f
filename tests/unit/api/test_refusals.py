"""Every broken rule has its sentence, without an API server."""

import re

import pytest
from msgspec import inspect as mi
from tests.support.manifests import model
from tests.support.model_types import all_rules
from tests.support.refusals import BAD_NAMES, FLINT, ILL_TYPED, IllTyped, Refusal, flint
from tests.support.refusals_by_rule import REFUSALS

from kindling_operator.model.api import InferenceModelSpec
from kindling_operator.model.conditions import Reason, fit_message
from kindling_operator.model.fields import Rule
from kindling_operator.model.parse import Invalid, ParsedModel, parse


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_broken_rule_is_one_sentence(refusal: Refusal) -> None:
    found = parse(model("flint", "ml", refusal.spec))
    assert isinstance(found, Invalid)
    assert found.message == refusal.by_parser
    assert found.message == fit_message(found.message)


@pytest.mark.parametrize("case", ILL_TYPED.values(), ids=ILL_TYPED.keys())
def test_an_ill_typed_field_is_one_sentence(case: IllTyped) -> None:
    found = parse(model("flint", "ml", case.spec))
    assert isinstance(found, Invalid)
    assert found.message == case.by_parser


@pytest.mark.parametrize(("name", "sentence"), BAD_NAMES.values(), ids=BAD_NAMES.keys())
def test_a_name_that_no_service_can_have(name: str, sentence: str) -> None:
    found = parse(model(name, "ml", FLINT))
    assert isinstance(found, Invalid)
    assert found.message == f"metadata.name {name!r}: {sentence}."


DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "image",
    [
        "vllm",
        "team/own:main",
        "localhost:5000/kindling/runtime-cpu:0.1.0",
        f"registry.example.com/team/my__own.image:v1@{DIGEST}",
        f"Registry.Example.com:443/own@{DIGEST}",
        "[2001:db8::1]:5000/own",
    ],
)
def test_an_image_that_a_node_can_read(image: str) -> None:
    assert isinstance(parse(model("flint", "ml", flint(runtime={"image": image}))), ParsedModel)


@pytest.mark.parametrize(
    "image",
    ["own@sha256:0123", "Own", "a/Own:tag", "own:", "own:-a", "a//b", "own@", "a" * 511 + "!"],
)
def test_an_image_that_no_node_can_read(image: str) -> None:
    found = parse(model("flint", "ml", flint(runtime={"image": image})))
    assert isinstance(found, Invalid)
    assert found.message.startswith(f"spec.runtime.image {image!r}: write an image reference")


@pytest.mark.parametrize("claim", ["w", "weights", "9.team-a.weights", "w" * 253])
@pytest.mark.parametrize("path", ["", "/", "/Tiny_1/x"])
def test_a_claim_by_its_name(claim: str, path: str) -> None:
    weights = {"uri": f"pvc://{claim}{path}"}
    assert isinstance(parse(model("flint", "ml", flint(model={"weights": weights}))), ParsedModel)


@pytest.mark.parametrize("claim", ["Weights", "a_b", "a..b", "a-", "a.-b", "w" * 254])
def test_a_claim_that_cannot_exist(claim: str) -> None:
    found = parse(model("flint", "ml", flint(model={"weights": {"uri": f"pvc://{claim}/tiny"}})))
    assert isinstance(found, Invalid)
    assert "name a claim of this namespace after pvc://" in found.message


def test_every_rule_has_a_spec_that_breaks_it() -> None:
    sentences = [refusal.sentence for refusal in REFUSALS.values()]
    untested = [
        rule.message
        for rule in all_rules(mi.type_info(InferenceModelSpec))
        if rule.holds is not None and not any(_says(rule, sentence) for sentence in sentences)
    ]
    assert untested == []


def _says(rule: Rule, sentence: str) -> bool:
    pattern = re.escape(rule.message).replace("%d", "[0-9]+").replace("%s", ".+")
    return re.fullmatch(pattern, sentence) is not None


def test_an_unknown_field_of_a_newer_version() -> None:
    found = parse(model("flint", "ml", {**FLINT, "replica": 2}))
    assert isinstance(found, Invalid)
    assert found.message == "spec: there is no field replica, see `kubectl explain im.spec`."


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (ILL_TYPED["a model that nobody knows"].spec, Reason.UNKNOWN_MODEL),
        (ILL_TYPED["a shape that is missing"].spec, Reason.INVALID_ARCHITECTURE),
        (REFUSALS["heads that do not divide"].spec, Reason.INVALID_ARCHITECTURE),
        (REFUSALS["custom without an architecture"].spec, Reason.INVALID_SPEC),
        (REFUSALS["two identities"].spec, Reason.INVALID_SPEC),
    ],
)
def test_the_reason_tells_what_to_look_at(spec: dict[str, object], reason: Reason) -> None:
    found = parse(model("flint", "ml", spec))
    assert isinstance(found, Invalid)
    assert found.reason is reason


def test_what_is_invalid_keeps_identity_and_status() -> None:
    body = model("flint", "ml", {})
    body["metadata"] |= {"uid": "u", "generation": 4, "resourceVersion": "17"}
    body["status"] = {"endpoint": "http://flint.ml.svc:8000/v1"}
    found = parse(body)
    assert isinstance(found, Invalid)
    assert (found.key, found.metadata.uid, found.metadata.generation) == (("ml", "flint"), "u", 4)
    assert found.status == body["status"]
