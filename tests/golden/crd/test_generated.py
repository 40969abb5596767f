"""The generated files in the repository are what the code makes now."""

import pytest
import yaml
from tests.support.onenode import ROOT

from kindling_operator.schema.crd import crd
from kindling_operator.schema.files import generated_files

STALE = "run `make generate` and commit the result"
CHART_COPY = "charts/kindling/templates/crd.yaml"


@pytest.mark.parametrize(("path", "text"), generated_files().items(), ids=lambda value: value[:48])
def test_a_generated_file_is_committed_as_generated(path: str, text: str) -> None:
    assert (ROOT / path).read_text("utf-8") == text, STALE


def test_the_chart_keeps_the_crd_and_changes_nothing_else() -> None:
    lines = (ROOT / CHART_COPY).read_text("utf-8").splitlines()
    assert (lines[0], lines[-1]) == ("{{- if .Values.crds.install }}", "{{- end }}")
    copy = yaml.safe_load("\n".join(lines[1:-1]))
    assert copy["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert copy == crd()


def test_the_chart_copy_has_no_template_action_but_the_switch() -> None:
    text = (ROOT / CHART_COPY).read_text("utf-8")
    assert text.count("{{") == 2
