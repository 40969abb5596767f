"""docs/cli.md tells of the commands that there are, and of no other."""

import re
import shlex
from pathlib import Path
from typing import Final

import pytest
from tests.support.onenode import ROOT

from kindling_operator.cli import arguments_of, main
from kindling_operator.cli_doctor_checks import CHECKS, findings
from kindling_operator.cli_doctor_facts import Cluster

TEXT: Final = (ROOT / "docs" / "cli.md").read_text()
BLOCKS: Final = re.findall(r"```\n(.*?)```", TEXT, re.DOTALL)
LINES: Final = [line for block in BLOCKS for line in block.splitlines() if line]


@pytest.mark.parametrize("line", LINES)
def test_a_command_of_the_docs_is_one(line: str) -> None:
    program, *arguments = shlex.split(line)
    assert program == "kindling"
    assert callable(arguments_of(arguments).run)


def test_every_command_is_in_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE)

    assert set(commands) >= {"plan", "explain", "doctor", "catalog", "replan"}
    assert set(commands) == {line.split()[1] for line in LINES}


def test_every_line_of_the_doctor_is_in_the_docs() -> None:
    table = TEXT[TEXT.index("## doctor") :]
    bare = Cluster(version="v1.37.0", groups={}, nodes=(), levels={}, daemons=(), deployments=())
    told = {finding.check for finding in findings(bare)}

    assert len(CHECKS) <= len(told) + 3, "checks that have nothing to say about a bare cluster"
    for check in told:
        assert f"| {check.rpartition(': ')[2]} |" in table


def test_every_cluster_of_the_examples_is_named() -> None:
    for path in (ROOT / "docs" / "examples" / "nodes").iterdir():
        assert f"`{Path(path).stem}`" in TEXT
