"""Names of objects: readable, and different wherever bytes or owners are."""

from dataclasses import replace
from typing import Any

import pytest

from kindling_runtime.kv.policy.scope import Facts, Group, Owner, place, readable

FACTS = Facts(
    model="RecursiveSI/flint",
    weights="9c0fe1d2a3b4c5d6e7f8",
    engine="vllm-0.33",
    layout="LBHNC",
    dtype="bfloat16",
    tensor=8,
    pipeline=1,
    prefill_context=1,
    decode_context=1,
    portable=False,
    tokens_per_hash=16,
    blocks_per_chunk=24,
    chunk_bytes=24 * 448 << 10,
    groups=(Group(tokens_per_block=16, layers=("0", "2"), window=None),),
)
OWNER = Owner(cluster="prod-eu", namespace="ml")


def test_a_person_can_read_where_chunks_are() -> None:
    found = place(FACTS, OWNER, below="kv/cache")
    assert found.home == "kv/cache/kindling-kv/v1/prod-eu/ml/RecursiveSI-flint"
    assert found.prefix.startswith(f"{found.home}/9c0fe1d2a3b4/vllm-0.33-bfloat16-tp8-")
    name = found.name(3, bytes.fromhex("3f07" + "00" * 30))
    assert name == f"{found.prefix}/g3/3f/3f07{'00' * 30}"


@pytest.mark.parametrize(
    "other",
    [
        {"model": "RecursiveSI-flint"},
        {"weights": "9c0fe1d2a3b4ffffffff"},
        {"engine": "vllm-0.34"},
        {"layout": "LBNHC"},
        {"dtype": "float16"},
        {"tensor": 4},
        {"pipeline": 2},
        {"prefill_context": 2},
        {"decode_context": 2},
        {"portable": True},
        {"tokens_per_hash": 32},
        {"blocks_per_chunk": 48},
        {"chunk_bytes": 1 << 20},
        {"groups": (Group(tokens_per_block=16, layers=("0", "2"), window=2),)},
        {"groups": (Group(tokens_per_block=16, layers=("0", "1"), window=None),)},
        {"salt": "tenant-7"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_bytes_have_another_place(other: dict[str, Any]) -> None:
    assert place(replace(FACTS, **other), OWNER).prefix != place(FACTS, OWNER).prefix


def test_where_bytes_do_not_depend_on_parallelism_pods_of_any_meet() -> None:
    one = replace(FACTS, portable=True)
    assert place(one, OWNER) == place(replace(one, tensor=1, pipeline=2), OWNER)
    assert "-any-" in place(one, OWNER).prefix


def test_owners_meet_only_where_the_bucket_is_shared() -> None:
    others = (Owner(cluster="prod-us", namespace="ml"), Owner(cluster="prod-eu", namespace="ml2"))
    for other in others:
        assert place(FACTS, other).prefix != place(FACTS, OWNER).prefix
        assert place(FACTS, replace(other, shared=True)) == place(
            FACTS, replace(OWNER, shared=True)
        )
    assert "/_shared/" in place(FACTS, replace(OWNER, shared=True)).prefix


def test_without_a_revision_or_an_owner_there_is_no_place() -> None:
    with pytest.raises(ValueError, match="the revision of the weights is not told"):
        place(replace(FACTS, weights=""), OWNER)
    with pytest.raises(ValueError, match="cluster and namespace are not told"):
        place(FACTS, Owner(cluster="", namespace="ml"))


def test_a_name_never_leaves_its_folder() -> None:
    assert readable("../../etc/passwd") == "etc-passwd"
    assert readable("..") == "_"
    odd = place(replace(FACTS, model="../../x", weights=".."), OWNER, below="../a//b/.")
    assert odd.prefix.startswith("a/b/kindling-kv/v1/prod-eu/ml/x/_/")
