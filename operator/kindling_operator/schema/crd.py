"""The CustomResourceDefinition of InferenceModel."""

from typing import Any, Final

from msgspec import inspect as mi

from kindling_operator.model import names
from kindling_operator.model.api import InferenceModelSpec
from kindling_operator.model.rules import NAME_RULES
from kindling_operator.model.status import InferenceModelStatus
from kindling_operator.plan.unsupported import UNSUPPORTED
from kindling_operator.schema.structural import Schema, schema_of, validations

NAME: Final = f"{names.PLURAL}.{names.GROUP}"

_DESCRIPTION: Final = (
    "InferenceModel serves one language model: apply it, and status.endpoint speaks the OpenAI API"
    " inside the cluster. Only spec.model.name is required; Kindling chooses the rest and says in"
    " status what it chose and why."
)


def crd() -> dict[str, Any]:
    """The CRD as it is applied, in the key order in which people read it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": names.GROUP,
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.KIND.lower(),
                "shortNames": ["im"],
                "categories": ["ai"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": _columns(),
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "schema": {"openAPIV3Schema": root_schema()},
                }
            ],
        },
    }


def root_schema() -> Schema:
    """The schema of a whole object."""
    spec = schema_of(mi.type_info(InferenceModelSpec))
    for field in UNSUPPORTED:
        described = _at(spec, field.field)
        described["description"] += f" {field.known}"
    status = schema_of(mi.type_info(InferenceModelStatus))
    return {
        "type": "object",
        "description": _DESCRIPTION,
        "properties": {
            "apiVersion": {
                "type": "string",
                "description": f"Version of this schema: {names.API_VERSION}.",
            },
            "kind": {"type": "string", "description": f"Kind of the object: {names.KIND}."},
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "spec": spec,
            "status": status,
        },
        "required": ["spec"],
        "x-kubernetes-validations": validations(NAME_RULES),
    }


def _at(spec: Schema, path: str) -> Schema:
    """The schema of a field such as spec.cache.objectStore; KeyError if there is none."""
    found = spec
    for name in path.split(".")[1:]:
        found = found["properties"][name]
    return found


def _columns() -> list[dict[str, Any]]:
    ready = '.status.conditions[?(@.type=="Ready")]'
    return [
        _column("Ready", f"{ready}.status", "Whether it generates tokens as the spec asks."),
        _column("Replicas", ".status.replicas", "Replicas that exist.", kind="integer"),
        _column("Plan", ".status.plan.summary", "The plan that replicas run."),
        _column("Cache-Hit", ".status.cache.hitRate.total", "Prompt tokens not computed again."),
        _column("Endpoint", ".status.endpoint", "Base URL of the OpenAI API."),
        _column("GPU", ".status.plan.gpu.product", "GPU of the plan.", wide=True),
        _column(
            "Context", ".status.plan.contextLength", "Tokens of context.", kind="integer", wide=True
        ),
        _column("Reason", f"{ready}.reason", "Why it is ready or not.", wide=True),
        _column("Age", ".metadata.creationTimestamp", "Time since creation.", kind="date"),
    ]


def _column(
    name: str, path: str, description: str, *, kind: str = "string", wide: bool = False
) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "jsonPath": path,
        "description": description,
        "priority": 1 if wide else 0,
    }
