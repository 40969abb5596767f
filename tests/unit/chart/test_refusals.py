"""What a person reads who gives the chart wrong values, or an old cluster."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
from tests.support.helm import Helm
from tests.support.install import NAMESPACE

from kindling_operator.settings import Settings, SettingsError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(60, func_only=True)]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("replica=2", "at '': additional properties 'replica' not allowed"),
        (
            "images.operator.sha=x",
            "at '/images/operator': additional properties 'sha' not allowed",
        ),
        ("replicas=0", "at '/replicas': minimum: got 0, want 1"),
        ("replicas=two", "at '/replicas': got string, want integer"),
        ("developmentStore=yes", "at '/developmentStore': got string, want boolean"),
        ("logLevel=loud", "at '/logLevel': value must be one of 'debug', 'info', 'warning', "),
        ("images.pullPolicy=Sometimes", "at '/images/pullPolicy': value must be one of 'Never', "),
        ("images.operator.digest=sha256:12", "at '/images/operator/digest': 'sha256:12' does not "),
        ("images.registry=https://r.io", "at '/images/registry': 'https://r.io' does not match "),
        ("leaderElection.leaseDuration=1m", "at '/leaderElection/leaseDuration': '1m' does not "),
        ("runtimes[0].name=ours", "at '/runtimes/0': missing properties 'device', 'vllm', "),
        ("watchNamespaces={Team_A}", "at '/watchNamespaces/0': 'Team_A' does not match pattern"),
    ],
)
def test_a_wrong_value_is_named(program: Helm, setting: str, message: str) -> None:
    assert message in program.refusal(f"--set={setting}")


LEASES = [("15s", "10s", "2s"), ("15s", "14s", "7s"), ("3s", "2s", "1s")]
NO_LEASES = [("15s", "15s", "2s"), ("10s", "15s", "2s"), ("15s", "10s", "6s"), ("9s", "10s", "9s")]


def _leader_election(lease: str, renew: str, retry: str) -> str:
    given = {"leaseDuration": lease, "renewDeadline": renew, "retryPeriod": retry}
    return f"--set-json=leaderElection={json.dumps(given)}"


@pytest.mark.parametrize(("lease", "renew", "retry"), NO_LEASES)
def test_durations_with_which_the_operator_would_end_are_refused(
    program: Helm, lease: str, renew: str, retry: str
) -> None:
    assert (
        f"leaderElection.renewDeadline is {renew}: set it to less than leaseDuration ({lease}) and"
        f" at least twice retryPeriod ({retry})"
    ) in program.refusal(_leader_election(lease, renew, retry))


@pytest.mark.parametrize(("lease", "renew", "retry"), [*LEASES, *NO_LEASES])
def test_the_chart_and_the_operator_refuse_the_same_durations(
    program: Helm, lease: str, renew: str, retry: str
) -> None:
    """What the chart lets through never ends a pod with exit code 64."""
    refused = program.template(_leader_election(lease, renew, retry)).returncode != 0
    environment = {
        "KINDLING_CUDA_IMAGE": "cuda",
        "KINDLING_CPU_IMAGE": "cpu",
        "KINDLING_POD_NAMESPACE": NAMESPACE,
        "KINDLING_LEASE_DURATION": lease,
        "KINDLING_RENEW_DEADLINE": renew,
        "KINDLING_RETRY_PERIOD": retry,
    }
    with pytest.raises(SettingsError) if refused else nullcontext():
        Settings.from_environment(environment)


def test_without_a_registry_it_says_what_to_set(program: Helm) -> None:
    assert (
        "images.registry is empty: set it to the registry that holds Kindling's images, for example"
        " --set images.registry=registry.example.com (none are published yet;"
        " `images/build --push REGISTRY` builds and pushes your own)"
    ) in program.refusal("--set=images.registry=")


def test_an_old_cluster_is_refused(program: Helm) -> None:
    told = program.refusal("--kube-version=v1.30.9")

    assert "chart requires kubeVersion: >=1.31.0-0 which is incompatible with" in told


def test_a_vendors_version_is_accepted(program: Helm) -> None:
    assert program.manifests("--kube-version=v1.31.2-gke.1000")
