"""docs/reference/inferencemodel.md: every field of the API for people."""

from collections.abc import Iterator
from typing import Any

from kindling_operator.model import names
from kindling_operator.schema.crd import root_schema
from kindling_operator.schema.structural import Schema

_HEAD = f"""\
<!-- Written by `make generate` from operator/kindling_operator/model; do not edit. -->
# InferenceModel

`{names.API_VERSION}`, kind `{names.KIND}`, short name `im`, category `ai`, namespaced.
`kubectl explain im.spec` prints the same text. **Bold** fields are required.
A quantity is an integer or a string such as `80Gi`; a duration is a string such as `1h30m`.
What is refused is said in a list or in italics, with N and VALUE for what the spec has.

"""


def reference_page() -> str:
    """The whole page."""
    root = root_schema()
    lines = ["The name of the object:", "", *_rules(root)]
    for part in ("spec", "status"):
        lines.extend(_section(part, root["properties"][part]))
    return _HEAD + "\n".join(lines).rstrip("\n") + "\n"


def _section(path: str, schema: Schema) -> Iterator[str]:
    """An object with its fields, then the objects below it."""
    yield f"## {path}"
    yield ""
    yield schema["description"]
    yield ""
    yield from _rules(schema)
    required = schema.get("required", ())
    properties: dict[str, Schema] = schema.get("properties", {})
    if properties:
        yield "| field | type | default | description |"
        yield "|---|---|---|---|"
    for name, part in properties.items():
        shown = f"**{name}**" if name in required else name
        yield f"| {shown} | {_type(part)} | {_default(part)} | {_description(part)} |"
    yield ""
    for name, part in properties.items():
        below, suffix = (part["items"], "[]") if "items" in part else (part, "")
        if "properties" in below:
            yield from _section(f"{path}.{name}{suffix}", below)


def _rules(schema: Schema) -> list[str]:
    rules = [rule["message"] for rule in schema.get("x-kubernetes-validations", ())]
    return [*(f"* {message}" for message in rules), *([""] if rules else [])]


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if "items" in schema:
        return f"list of {_type(schema['items'])}, at most {schema['maxItems']}"
    if "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])}, at most {schema['maxProperties']}"
    if schema["type"] == "integer":
        return f"integer, {schema['minimum']} to {schema['maximum']}"
    return str(schema["type"])


def _default(schema: Schema) -> str:
    default: Any = schema.get("default")
    if default is None or default == {}:
        return ""
    if isinstance(default, list):
        return ", ".join(f"`{item}`" for item in default)
    return f"`{default}`"


def _description(schema: Schema) -> str:
    below = schema.get("items", schema)
    rules = [] if "properties" in below else _rules(below)
    messages = "".join(f" *{rule[2:]}*." for rule in rules if rule)
    text: str = schema["description"]
    return text.replace("|", "\\|") + messages
