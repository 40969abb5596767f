"""What a planned engine fetches: nothing, or from the hosts that the user names, in real vLLM."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from tests.images.built import build, container, inside
from tests.support.builders import Cluster, cpu_node, tiny_architecture, tiny_spec

from kindling_operator.model.plan import EnginePlan

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

SCRIPT: Final = Path(__file__).with_name("fetch_media.py")
OPTION: Final = "--allowed-media-domains"


def planned(*domains: str) -> EnginePlan:
    """The plan of a model that understands images."""
    architecture = tiny_architecture(modalities=["Text", "Image"])
    spec = tiny_spec(architecture, serving={"mediaDomains": list(domains)})
    current = Cluster(nodes=(cpu_node(),)).apply(spec).decide().current
    assert current is not None
    return current.plan


def allowed(plan: EnginePlan) -> list[str]:
    """The hosts of the rendered option."""
    [place] = [n for n, each in enumerate(plan.argv) if each.partition("=")[0] == OPTION]
    if "=" in plan.argv[place]:
        return [plan.argv[place].partition("=")[2]]
    rest = plan.argv[place + 1 :]
    last = next(n for n, each in enumerate(rest) if each.startswith("--"))
    return list(rest[:last])


def fetched(plan: EnginePlan, urls: Sequence[str]) -> list[dict[str, Any]]:
    """What vLLM makes of each address."""
    asked = json.dumps({"domains": allowed(plan), "urls": list(urls)})
    variables = [f"{name}={value}" for name, value in plan.env.items()]
    with container(build("runtime-cpu")) as name:
        out = inside(name, "env", *variables, "python", "-c", SCRIPT.read_text(), given=asked)
    found: list[dict[str, Any]] = json.loads(out.splitlines()[-1])
    return found


def test_without_domains_nothing_is_connected_to() -> None:
    urls = (
        "http://SERVER/picture",
        "http://10.0.0.1/picture",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://metadata.google.internal/computeMetadata/v1/",
        "https://kubernetes.default.svc/api",
        "file:///etc/passwd",
        "ftp://10.0.0.1/picture",
    )

    answers = fetched(planned(), urls)

    assert [a["connected"] for a in answers] == [[]] * len(urls)
    assert all("error" in answer for answer in answers)


def test_the_named_hosts_alone_are_fetched_from_and_no_redirect_is_followed() -> None:
    urls = ("http://SERVER/picture", "http://127.0.0.1:9/picture", "http://SERVER/away")

    picture, other, away = fetched(planned("assets.example.com", "localhost"), urls)

    assert picture["size"] == [8, 8]
    assert picture["asked"] == ["/picture"]
    assert "error" in other
    assert (other["connected"], other["asked"]) == ([], [])
    # The host that was named is asked; its redirect leads nowhere.
    assert away["asked"] == ["/away"]
    assert "size" not in away
