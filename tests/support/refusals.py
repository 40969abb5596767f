"""Specs that are refused, with the sentences that their owner reads.

The API server (tests/cluster/test_crd.py) and the parser behind `kindling plan -f`
(tests/unit/api/test_refusals.py) are held to the same table.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from tests.support.kube import Object
from tests.support.manifests import merged

FLINT: Final[Object] = {"model": {"name": "flint"}}

TINY: Final[Object] = {
    "architecture": "Qwen3ForCausalLM",
    "hiddenSize": 256,
    "vocabularySize": 2048,
    "attentionHeads": 8,
    "layers": 4,
    "intermediateSize": 512,
    "attention": [{"name": "full", "kind": "Full", "layers": 4, "kvHeads": 2, "headSize": 64}],
    "contextLength": 4096,
    "checkpoints": [{"name": "BF16", "bytes": 7 * 2**20}],
    "devices": ["CPU"],
}
"""A valid architecture, from which cases differ in one thing."""

NOTHING: Final = object()
"""The rule is about several fields, so that no single value is shown before the sentence."""

UNCHECKED: Final = (
    "* <nil>: Invalid value: null: some validation rules were not checked because the object was"
    " invalid; correct the existing errors to complete validation"
)
"""What the API server adds to the refusal of a value whose type is wrong."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A spec that breaks one rule."""

    spec: Object
    field: str
    sentence: str
    value: Any = NOTHING

    @property
    def by_server(self) -> str:
        """What kubectl prints after `The InferenceModel "NAME" is invalid: `."""
        shown = "" if self.value is NOTHING else f"{json.dumps(self.value)}: "
        return f"{self.field}: Invalid value: {shown}{self.sentence}"

    @property
    def by_parser(self) -> str:
        """The message of the condition and of `kindling plan`."""
        shown = "" if self.value is NOTHING else f" {self.value!r}"
        return f"{self.field}{shown}: {self.sentence}."


@dataclass(frozen=True, slots=True)
class IllTyped:
    """A spec that does not even have the right shape: both sides say so in their own words."""

    spec: Object
    by_server: str
    by_parser: str


def flint(**spec: Any) -> Object:
    """A spec for Flint with these fields."""
    return merged(FLINT, spec)


def custom(**architecture: Any) -> Object:
    """A spec for the tiny custom model with these fields of the architecture; None removes one."""
    return {"model": {"name": "custom", "custom": merged(TINY, architecture)}}


def store(uri: str = "s3://kv/flint", identity: Object | None = None, **fields: Any) -> Object:
    """A spec for Flint with an object store."""
    identity = {"aws": {"podIdentity": {}}} if identity is None else identity
    return flint(cache={"objectStore": {"uri": uri, "identity": identity, **fields}})


ILL_TYPED: Final = {
    "a model that nobody knows": IllTyped(
        {"model": {"name": "flnt"}},
        '\n* spec.model.name: Unsupported value: "flnt": supported values: "inkling", "flint",'
        f' "custom"\n{UNCHECKED}',
        "spec.model.name 'flnt' is not in the catalog: use one of inkling, flint, custom.",
    ),
    "no model": IllTyped(
        {},
        f"\n* spec.model: Required value\n{UNCHECKED}",
        "spec: the required field is missing: model, see `kubectl explain im.spec`.",
    ),
    "a number in quotes": IllTyped(
        flint(serving={"contextLength": "128k"}),
        '\n* spec.serving.contextLength: Invalid value: "string": spec.serving.contextLength in'
        f' body must be of type integer: "string"\n{UNCHECKED}',
        "spec.serving.contextLength '128k': expected int, got str, see"
        " `kubectl explain im.spec.serving.contextLength`.",
    ),
    "no concurrency": IllTyped(
        flint(serving={"concurrency": 0}),
        "spec.serving.concurrency: Invalid value: 0: spec.serving.concurrency in body should be"
        " greater than or equal to 1",
        "spec.serving.concurrency 0: expected int >= 1, see"
        " `kubectl explain im.spec.serving.concurrency`.",
    ),
    "a word that is none of the choices": IllTyped(
        flint(serving={"frontend": "Go"}),
        '\n* spec.serving.frontend: Unsupported value: "Go": supported values: "Python", "Rust"\n'
        f"{UNCHECKED}",
        "spec.serving.frontend 'Go': invalid enum value 'Go', see"
        " `kubectl explain im.spec.serving.frontend`.",
    ),
    "a port beyond all ports": IllTyped(
        flint(endpoint={"port": 70000}),
        "spec.endpoint.port: Invalid value: 70000: spec.endpoint.port in body should be less than"
        " or equal to 65535",
        "spec.endpoint.port 70000: expected int <= 65535, see"
        " `kubectl explain im.spec.endpoint.port`.",
    ),
    "a shape that is missing": IllTyped(
        custom(hiddenSize=None),
        f"\n* spec.model.custom.hiddenSize: Required value\n{UNCHECKED}",
        "spec.model.custom: the required field is missing: hiddenSize, see"
        " `kubectl explain im.spec.model.custom`.",
    ),
    "no upper end of scaling": IllTyped(
        flint(scaling={"minReplicas": 1}),
        f"\n* spec.scaling.maxReplicas: Required value\n{UNCHECKED}",
        "spec.scaling: the required field is missing: maxReplicas, see"
        " `kubectl explain im.spec.scaling`.",
    ),
    "memory that is a truth value": IllTyped(
        flint(cache={"hostMemory": True}),
        '\n* spec.cache.hostMemory: Invalid value: "boolean": spec.cache.hostMemory in body must be'
        f' of type integer,string: "boolean"\n{UNCHECKED}',
        "spec.cache.hostMemory True: expected int | str, got bool, see"
        " `kubectl explain im.spec.cache.hostMemory`.",
    ),
    "the same modality twice": IllTyped(
        flint(serving={"modalities": ["Text", "Text"]}),
        'spec.serving.modalities[1]: Duplicate value: "Text"',
        "spec.serving.modalities: the same item stands twice: remove one.",
    ),
    "two adapters of one name": IllTyped(
        flint(
            serving={"adapters": [{"name": "a", "uri": "s3://x"}, {"name": "a", "uri": "s3://y"}]}
        ),
        'spec.serving.adapters[1]: Duplicate value: {"name":"a"}',
        "spec.serving.adapters: the same `name` stands twice: remove one.",
    ),
}

BAD_NAMES: Final = {
    "a name with a dot": (
        "flint.v2",
        "begin with a letter, end with a letter or digit and use lower-case letters, digits and"
        " '-' only: the Service of the endpoint gets this name",
    ),
    "a name that begins with a digit": (
        "4flint",
        "begin with a letter, end with a letter or digit and use lower-case letters, digits and"
        " '-' only: the Service of the endpoint gets this name",
    ),
    "a name that is too long for a revision": (
        "f" * 51,
        "use at most 50 characters: the names of the Service and of every revision's Deployment"
        " are made from it",
    ),
}
