"""The limit of a claim that keeps downloads: what is refused, and that it restarts nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.builders import Cluster, catalog_spec, cpu_node, environment, gpu_node, tiny_spec
from tests.support.manifests import merged

from kindling_operator.model.conditions import Reason
from kindling_operator.model.names import limits_object_name
from kindling_operator.model.objects import ClaimView
from kindling_operator.model.quantities import format_bytes
from kindling_runtime.contract import CACHE_LIMIT_VARIABLE

WEIGHTS = 5_781_504
"""Bytes of the tiny model."""


def cluster(spec: dict[str, Any], **settings: Any) -> Cluster:
    """A laptop and eight H200, bound claims, and an installation with these settings."""
    names = ("cache", "charts", "weights")
    return Cluster(
        nodes=(cpu_node(), gpu_node("gpu")),
        claims=tuple(ClaimView("ml", name, "Bound", terminating=False) for name in names),
        environment=environment(**settings),
    ).apply(spec)


def tiny(**weights: Any) -> dict[str, Any]:
    return merged(tiny_spec(), {"model": {"weights": {"uri": "hf://org/tiny", **weights}}})


def limit_of(found: Cluster) -> str | None:
    """What a pod that starts now would read."""
    named = [m for m in found.manifests() if m["metadata"]["name"] == limits_object_name("tiny")]
    assert len(named) <= 1
    return named[0]["data"]["cacheMaxBytes"] if named else None


def pods_of(found: Cluster) -> list[Any]:
    return [m["spec"]["template"] for m in found.manifests() if m["kind"] == "Deployment"]


def claims_of(found: Cluster) -> list[str]:
    [template] = pods_of(found)
    volumes = template["spec"]["volumes"]
    return [v["persistentVolumeClaim"]["claimName"] for v in volumes if v["name"] == "cache"]


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (
            {"cacheMaxBytes": "2Ti"},
            "spec.model.weights.cacheMaxBytes is 2Ti and no claim keeps the download: set"
            " spec.model.weights.cacheClaim.",
        ),
        (
            {"uri": "pvc://weights/tiny", "cacheClaim": "cache", "cacheMaxBytes": "2Ti"},
            "spec.model.weights.cacheMaxBytes is 2Ti and pvc://weights/tiny is not downloaded:"
            " remove it.",
        ),
        (
            {"cacheClaim": "cache", "cacheMaxBytes": "5Mi"},
            "spec.model.weights.cacheMaxBytes is 5Mi and the BF16 weights have 5.5 MiB: set it to"
            " 1Gi or more.",
        ),
    ],
)
def test_a_limit_that_bounds_nothing_or_too_much_is_refused(
    weights: dict[str, Any], sentence: str
) -> None:
    found = cluster(tiny(**weights))
    refused = found.decide().refused

    assert refused is not None
    assert (refused.reason, refused.message) == (Reason.INVALID_SPEC, sentence)
    assert found.manifests() == ()


def test_a_smaller_checkpoint_is_named_where_the_limit_holds_one() -> None:
    weights = {"cacheClaim": "cache", "cacheMaxBytes": "40Gi"}
    found = cluster(catalog_spec("flint", model={"checkpoint": "BF16", "weights": weights}))
    refused = found.decide().refused

    assert refused is not None
    assert refused.message.startswith(
        "spec.model.weights.cacheMaxBytes is 40Gi and the BF16 weights have 7"
    )
    assert refused.message.endswith("Gi or more, or spec.model.checkpoint to NVFP4.")


@given(st.integers(1, 3 * WEIGHTS))
def test_a_limit_is_refused_with_both_sizes_or_read_by_the_pod_that_downloads(limit: int) -> None:
    found = cluster(tiny(cacheClaim="cache", cacheMaxBytes=limit))
    refused = found.decide().refused

    assert (refused is None) == (limit >= WEIGHTS)
    if refused is not None:
        assert f"is {limit} " in refused.message
        assert format_bytes(WEIGHTS) in refused.message
        return
    assert limit_of(found) == str(limit)
    [template] = pods_of(found)
    [fetch] = template["spec"]["initContainers"]
    [variable] = [each for each in fetch["env"] if each["name"] == CACHE_LIMIT_VARIABLE]
    source = variable["valueFrom"]["configMapKeyRef"]
    assert (source["name"], source["key"]) == (limits_object_name("tiny"), "cacheMaxBytes")
    # Nobody has to give one, and the ConfigMap may come later.
    assert source["optional"]


def test_a_change_of_the_limit_is_read_by_the_next_download_and_restarts_nothing() -> None:
    found = cluster(tiny(cacheClaim="cache"))
    first = found.step().current
    assert first is not None
    before = pods_of(found)
    assert limit_of(found) is None
    for limit in ("2Ti", "1Ti"):
        step = found.apply(tiny(cacheClaim="cache", cacheMaxBytes=limit)).step()
        assert step.current is not None
        assert (step.current.hash, step.better) == (first.hash, None)
        assert pods_of(found) == before
        assert limit_of(found) == str(1 << 41 if limit == "2Ti" else 1 << 40)


def test_a_limit_that_is_refused_later_takes_nothing_away_and_holds_no_pod_back() -> None:
    found = cluster(tiny(cacheClaim="cache", cacheMaxBytes="2Ti"))
    first = found.step().current
    before = pods_of(found)
    step = found.apply(tiny(cacheClaim="cache", cacheMaxBytes="5Mi")).step()

    assert step.refused is not None
    assert "the BF16 weights have 5.5 MiB" in step.refused.message
    assert step.current is not None
    assert first is not None
    assert step.current.hash == first.hash
    assert pods_of(found) == before
    assert limit_of(found) is None


def test_the_charts_claim_and_limit_are_those_of_models_that_name_none() -> None:
    settings = {"cache_claim": "charts", "cache_max_bytes": "1Ti"}

    assert claims_of(cluster(tiny(), **settings)) == ["charts"]
    assert limit_of(cluster(tiny(), **settings)) == str(1 << 40)
    own = cluster(tiny(cacheClaim="cache", cacheMaxBytes="2Ti"), **settings)
    assert claims_of(own) == ["cache"]
    assert limit_of(own) == str(1 << 41)
    # Nothing is downloaded here, and the chart cannot know: its limit is silent.
    local = cluster(tiny_spec(), **settings)
    assert local.decide().refused is None
    assert claims_of(local) == ["charts"]
    assert limit_of(local) is None


def test_a_limit_of_the_chart_below_the_weights_says_whose_it_is() -> None:
    refused = cluster(tiny(), cache_claim="charts", cache_max_bytes="5Mi").decide().refused

    assert refused is not None
    assert refused.message.startswith(
        "spec.model.weights.cacheMaxBytes is 5Mi by the chart and the BF16 weights have 5.5 MiB:"
    )


def test_another_claim_of_the_chart_leaves_what_runs_where_it_is() -> None:
    found = cluster(tiny(), cache_claim="charts")
    found.step()
    before = pods_of(found)
    found.environment = environment(cache_claim="cache")
    step = found.step()

    assert pods_of(found) == before
    assert step.better is not None
