"""``spec.model``: which model, which weights."""

import re
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from msgspec import Meta

from kindling_operator.model.architecture import Architecture, CheckpointName
from kindling_operator.model.fields import (
    SUBDOMAIN,
    ObjectName,
    Quantity,
    Revision,
    Rule,
    SecretKey,
    Spec,
    doc,
    matches,
    text,
)


class ModelName(StrEnum):
    """An entry of the catalog."""

    INKLING = "inkling"
    FLINT = "flint"
    CUSTOM = "custom"


class CheckpointChoice(StrEnum):
    """Which set of weights to serve."""

    AUTO = "Auto"
    BF16 = "BF16"
    NVFP4 = "NVFP4"

    @property
    def pinned(self) -> CheckpointName | None:
        """The checkpoint that the user insists on, or None for Auto."""
        return None if self is CheckpointChoice.AUTO else CheckpointName(self.value)


_PATH: Final = r"[^\x00-\x20\x7f]*"
"""Neither blanks nor control characters: the path becomes an argument of a process."""

_CLAIM: Final = f"^pvc://{SUBDOMAIN}(/|$)"
_CLAIM_LENGTH: Final = "^pvc://[^/]{1,253}(/|$)"


def _names_a_claim(uri: str) -> bool:
    return all(re.match(pattern, uri, re.ASCII) for pattern in (_CLAIM, _CLAIM_LENGTH))


WeightsUri = Annotated[
    str,
    text(
        512,
        matches(
            rf"^(hf|s3|gs|az|pvc)://[A-Za-z0-9]{_PATH}$|^file:///{_PATH}$",
            "start with hf://, s3://, gs://, az:// or pvc://, or with file:/// and a path"
            " inside the image",
        ),
        Rule(
            cel=f"!self.startsWith('pvc://') || (self.matches(r'{_CLAIM}')"
            f" && self.matches(r'{_CLAIM_LENGTH}'))",
            message="name a claim of this namespace after pvc://: at most 253 lower-case letters,"
            " digits, '-' and '.'",
            holds=lambda uri: not uri.startswith("pvc://") or _names_a_claim(uri),
        ),
        Rule(
            cel="!self.matches(r'/[.][.](/|$)')",
            message="write the path without `..`",
            holds=lambda uri: "/../" not in f"{uri}/",
        ),
    ),
]


class SecretKeyRef(Spec, frozen=True, kw_only=True):
    """One key of a Secret in the object's namespace."""

    name: Annotated[ObjectName, doc("Name of the Secret.")]
    key: Annotated[SecretKey, doc("Key in the Secret.")]


class Weights(Spec, frozen=True, kw_only=True):
    """Where the weights come from."""

    uri: Annotated[
        WeightsUri | None,
        doc(
            "Source of the weights: hf://org/name, s3://bucket/prefix, gs://bucket/prefix,"
            " az://container@account/prefix, pvc://claim/path (a claim of this namespace) or"
            " file:///path inside the image. Default: the catalog's repository."
        ),
    ] = None
    revision: Annotated[
        Revision | None,
        doc(
            "Commit of an hf:// repository, or any name for the content elsewhere; part of every"
            " cache key. Default: what the default branch is at the first download."
        ),
    ] = None
    token_secret_ref: Annotated[
        SecretKeyRef | None, doc("Secret with the access token of a private hf:// repository.")
    ] = None
    cache_claim: Annotated[
        ObjectName | None,
        doc(
            "PersistentVolumeClaim of this namespace that keeps downloads and compiled kernels."
            " Default: the chart's `weights.cacheClaim`, else the pod's own ephemeral volume."
        ),
    ] = None
    cache_max_bytes: Annotated[
        Quantity | None,
        doc(
            "Space that weights and kernels may take in the claim, such as 2Ti, looked at before"
            " each download of this model. Default: the chart's `weights.cacheMaxBytes`, else what"
            " the volume has."
        ),
    ] = None


class Model(Spec, frozen=True, kw_only=True):
    """What to serve."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.name != 'custom' || has(self.custom)",
            message="`name: custom` needs the architecture in `custom`: copy it from config.json",
            holds=lambda m: m.name is not ModelName.CUSTOM or m.custom is not None,
        ),
        Rule(
            cel="self.name == 'custom' || !has(self.custom)",
            message="`name: %s` takes its architecture from the catalog: remove `custom`, or set"
            " `name: custom`",
            holds=lambda m: m.name is ModelName.CUSTOM or m.custom is None,
            values=(("self.name", lambda m: m.name),),
        ),
    )

    name: Annotated[
        ModelName,
        Meta(
            extra={
                "rules": (
                    Rule(
                        cel="self == oldSelf",
                        message="is immutable: create another InferenceModel for another model",
                    ),
                )
            }
        ),
        doc("Entry of the catalog, or custom with the architecture in `custom`. Immutable."),
    ]
    checkpoint: Annotated[
        CheckpointChoice,
        doc(
            "Weights to serve. Auto takes the supported checkpoint that needs the fewest GPUs, at"
            " equal count the one with the higher precision."
        ),
    ] = CheckpointChoice.AUTO
    weights: Annotated[
        Weights | None, doc("Where the weights come from. Default: the catalog's repository.")
    ] = None
    custom: Annotated[
        Architecture | None,
        doc("The model's architecture, in the catalog's own schema. Only with `name: custom`."),
    ] = None
