"""The generated files of the repository: path and text of each."""

from typing import Any, Final

import yaml

from kindling_operator.schema.conditions import conditions_page
from kindling_operator.schema.crd import NAME, crd
from kindling_operator.schema.reference import reference_page

_NOTICE: Final = "# Written by `make generate` from the typed model; do not edit.\n"
_KEEP: Final = {"helm.sh/resource-policy": "keep"}


def generated_files() -> dict[str, str]:
    """Text by path, relative to the root of the repository."""
    return {
        f"crds/kindling.dev_{NAME.partition('.')[0]}.yaml": _NOTICE + _yaml(crd()),
        "charts/kindling/templates/crd.yaml": _chart_copy(),
        "docs/reference/inferencemodel.md": reference_page(),
        "docs/reference/conditions.md": conditions_page(),
    }


def _chart_copy() -> str:
    """The CRD as a template: upgraded with the release, kept when the release goes."""
    kept = crd()
    kept["metadata"] = kept["metadata"] | {"annotations": _KEEP}
    escaped = _yaml(kept).replace("{{", '{{ "{{" }}')
    return f"{{{{- if .Values.crds.install }}}}\n{_NOTICE}{escaped}{{{{- end }}}}\n"


class _Dumper(yaml.SafeDumper):
    """Writes out what YAML would otherwise refer back to."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _yaml(data: dict[str, Any]) -> str:
    text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=4096, allow_unicode=True)
    return str(text)
