"""A cluster that cannot be reached, or is not named: one sentence each."""

from pathlib import Path

import pytest
from tests.support.plan_files import Files

from kindling_operator.cli import main


@pytest.mark.parametrize("name", ["tiny", "im/", "pod/tiny", "/tiny"])
def test_replan_wants_a_model(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replan", name, "-n", "ml"]) == 2
    assert capsys.readouterr().err == f"kindling: {name!r} names no model; write im/NAME\n"


def test_replan_says_that_replicas_are_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["replan", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "A rollout replaces its replicas, also where the plan stays as it is" in text


CLUSTER_COMMANDS = (
    ["replan", "im/tiny", "-n", "ml"],
    ["explain", "im/tiny", "-n", "ml"],
    ["doctor"],
)


@pytest.mark.parametrize("command", CLUSTER_COMMANDS, ids=lambda command: command[0])
def test_without_a_kubeconfig(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    assert main(command) == 2
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        f"kindling: the kubeconfig cannot be used (there is no file {tmp_path}/none): set"
        " KUBECONFIG or give --kubeconfig\n",
    )


_CLUSTERS = "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1', %s}}]\n"
_BROKEN_CONFIGS = {
    "no YAML": "a: [",
    "nothing": "",
    "a list": "[]",
    "a number of contexts": "contexts: 3",
    "contexts without names": "{current-context: a, contexts: [{context: {}}]}",
    "certificates that are none": "current-context: a\nusers: [{name: a, user: {}}]\n"
    "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
    + _CLUSTERS
    % "certificate-authority-data: '!'",
}


@pytest.mark.parametrize("text", _BROKEN_CONFIGS.values(), ids=_BROKEN_CONFIGS)
def test_a_kubeconfig_that_is_none(
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))

    assert main(["replan", "im/x"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("kindling: the kubeconfig cannot be used (")


def test_a_context_that_is_not_there(
    files: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"kind": "Config", "contexts": [], "clusters": [], "users": [], "current-context": ""}
    file = files.write("config.yaml", config)
    monkeypatch.delenv("KUBECONFIG", raising=False)

    assert main(["doctor", "--kubeconfig", file, "--context", "nowhere"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("kindling: the kubeconfig cannot be used (")
    assert err.endswith("): correct it, or give another --context\n")
