"""What holds of the pieces of a KV cache, whatever is asked for."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from kindling_runtime.plugins.split_policy import MOST, PARTIAL_ROWS, TILE_KEYS, split_count


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Requests of one rank; `shared` query heads use one KV head."""

    batch: int
    query: int
    kv: int
    shared: int
    keys: int

    def pieces(self) -> int:
        return split_count(
            batch=self.batch,
            query=self.query,
            heads=self.kv * self.shared,
            kv_heads=self.kv,
            keys=self.keys,
        )


work = st.builds(
    Work,
    batch=st.integers(1, 1024),
    query=st.integers(1, 8192),
    kv=st.sampled_from([1, 2, 4, 8, 16]),
    shared=st.sampled_from([1, 4, 8, 16]),
    keys=st.integers(1, 1 << 20),
)
more = st.integers(1, 1 << 20)


@given(work)
def test_a_power_of_two_within_what_was_measured(work: Work) -> None:
    assert 1 <= work.pieces() <= MOST
    assert work.pieces().bit_count() == 1


@given(work)
def test_no_piece_is_empty_at_the_longest_context(work: Work) -> None:
    assert (work.pieces() - 1) * TILE_KEYS < work.keys


@given(work)
def test_partial_results_stay_small(work: Work) -> None:
    rows = work.pieces() * work.batch * work.query * work.kv * work.shared
    assert work.pieces() == 1 or rows <= PARTIAL_ROWS


@given(work, more)
def test_more_work_is_never_cut_into_more_pieces(work: Work, more: int) -> None:
    for larger in (
        dataclasses.replace(work, batch=work.batch + more),
        dataclasses.replace(work, query=work.query + more),
        dataclasses.replace(work, kv=work.kv * 2),
    ):
        assert larger.pieces() <= work.pieces()


@given(work, more)
def test_a_longer_context_is_never_cut_into_fewer(work: Work, more: int) -> None:
    assert dataclasses.replace(work, keys=work.keys + more).pieces() >= work.pieces()
