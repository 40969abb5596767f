"""What an engine's metrics say of its work, rank by rank."""

import pytest

from kindling_runtime.evidence import Book, Signs, signs_of

TOLD = """
vllm:generation_tokens_total{engine="0",model_name="m"} 7
vllm:generation_tokens_total{engine="1",model_name="m"} 1
vllm:prompt_tokens_total{engine="0",model_name="m"} 5
vllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} 99
vllm:kv_cache_usage_perc{engine="1"} 0.25
vllm:num_requests_running{engine="1"} 20
vllm:num_requests_waiting{engine="1"} 3
vllm:num_requests_waiting_by_reason{engine="1",reason="capacity"} 1
vllm:num_requests_waiting_by_reason{engine="1",reason="deferred"} 2
"""


def test_each_engine_is_read_by_itself() -> None:
    assert signs_of(TOLD) == {"0": Signs(12, 0.0, 0), "1": Signs(1, 0.25, 21)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", None),
        ("<html>", None),
        ("vllm:num_requests_running NaN", None),
        ("vllm:num_requests_running -4", {"": Signs(0, 0, 0)}),
        ("vllm:num_requests_running 1e300", {"": Signs(0, 0, 2**53)}),
        ('vllm:kv_cache_usage_perc{engine="\x1b[31m' + "x" * 99 + '"} 1', {"[31m" + "x" * 27: 1}),
    ],
)
def test_what_makes_no_sense_is_no_sign(text: str, found: dict[str, object] | None) -> None:
    told = signs_of(text)
    if found is None or isinstance(next(iter(found.values())), Signs):
        assert told == found
    else:
        assert told is not None
        assert list(told) == list(found)


@pytest.mark.parametrize(
    ("before", "after", "worked"),
    [
        (Signs(5, 0.2, 1), Signs(6, 0.2, 1), True),
        (Signs(5, 0.2, 1), Signs(6, 0.0, 0), True),
        (Signs(5, 0.2, 1), Signs(5, 0.3, 1), True),
        (Signs(5, 0.2, 1), Signs(5, 0.2, 1), False),
        (Signs(5, 0.2, 1), Signs(5, 0.20001, 1), False),
        (Signs(5, 0.2, 1), Signs(5, 0.1, 1), False),
        (Signs(5, 0.2, 1), Signs(4, 0.2, 1), False),
        (Signs(5, 0.2, 0), Signs(5, 0.3, 0), False),
    ],
)
def test_what_is_work(before: Signs, after: Signs, worked: bool) -> None:
    book = Book(seconds=10)
    book.begin({"0": before}, now=0)
    book.begin({"0": after}, now=1)
    assert book.worked is worked
    assert book.awaited is (after.requests > 0 and not worked)


def test_a_height_that_the_cache_had_before_is_none_until_a_token_came() -> None:
    book = Book(seconds=10)
    for cache, tokens, worked in (
        (0.2, 0, False),
        (0.8, 0, True),
        (0.3, 0, False),
        (0.8, 0, False),
        (0.1, 1, True),
        (0.3, 1, True),
    ):
        book.begin({"0": Signs(tokens, cache, 1)}, now=0)
        assert book.worked is worked


def test_an_engine_that_is_gone_is_not_waited_for() -> None:
    book = Book(seconds=10)
    book.begin({"0": Signs(1, 0, 1), "1": Signs(1, 0, 1)}, now=0)
    book.enter({"0": Signs(2, 0, 1)}, now=1)
    assert not book.awaited
    assert book.left(now=1) == float("inf")


def test_the_time_of_an_engine_that_is_told_of_now_and_then_goes_on() -> None:
    book, hangs = Book(seconds=10), Signs(50, 0.1, 5)
    for now in range(11):
        works = {"0": Signs(now, 0.1, 1)}
        book.begin(works if now % 2 else works | {"1": hangs}, now=now)
    assert book.left(now=10) == 0
    assert book.silent() == ("engine 1", 5)


def test_an_engine_that_comes_back_with_new_counters_has_its_whole_time() -> None:
    book = Book(seconds=10)
    book.begin({"1": Signs(50, 0.1, 5)}, now=0)
    book.begin({"0": Signs(1, 0.1, 1)}, now=5)
    book.begin({"1": Signs(0, 0.0, 5)}, now=60)
    assert book.left(now=60) == 10


def test_counters_that_begin_anew_show_work_with_their_next_rise() -> None:
    book = Book(seconds=10)
    book.begin({"0": Signs(100, 0.1, 1)}, now=0)
    book.begin({"0": Signs(0, 0.0, 1)}, now=5)
    assert book.awaited
    book.enter({"0": Signs(3, 0.0, 1)}, now=6)
    assert book.worked
    assert not book.awaited
