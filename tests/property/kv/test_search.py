"""A search finds what is in a store, asks little, and tells nothing that would not be found."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.kv.prompts import chunks_of, keys_of

from kindling_runtime.kv.policy.chains import runs
from kindling_runtime.kv.policy.presence import Presence
from kindling_runtime.kv.policy.search import Chain, Search, Source

slots = st.integers(1, 12)


class Store:
    """Objects by their anchor's key: what they hold, from the anchor back."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.objects: dict[bytes, list[bytes]] = {}
        self.writers = Presence()

    def write(self, keys: list[bytes], indexes: range) -> None:
        for run in runs(0, chunks_of(keys, indexes), self.slots):
            if (rest := self.writers.missing(run)) is not None:
                self.objects[rest.anchor.key] = [chunk.key for chunk in rest.chunks][::-1]
                self.writers.exists(rest.anchor.key, len(rest.chunks))

    def has(self, key: bytes, source: Source) -> bool:
        held = self.objects.get(source.anchor, [])
        return source.back < len(held) and held[source.back] == key


def found(
    store: Store, chains: list[Chain], presence: Presence | None = None
) -> tuple[Search, int, int]:
    """A search after its last round; how many rounds and questions it had."""
    search = Search(chains, store.slots, (presence or Presence()).count)
    rounds = questions = 0
    while asked := search.round():
        assert len({(each.group, each.index) for each in asked}) == len(asked)
        rounds, questions = rounds + 1, questions + len(asked)
        for each in asked:
            held = store.objects.get(each.key)
            search.answer(each, None if held is None else len(held))
    return search, rounds, questions


@given(slots, st.integers(1, 400))
def test_a_prompt_that_is_there_is_found_in_one_round(slots: int, length: int) -> None:
    store, keys = Store(slots), keys_of("prompt", length)
    store.write(keys, range(length))
    search, rounds, questions = found(store, [Chain(0, 16, tuple(keys))])
    assert search.tokens == 16 * length
    assert set(search.sources()) == set(keys)
    assert all(store.has(key, source) for key, source in search.sources().items())
    assert rounds <= 2
    assert questions <= 16


@given(slots, st.integers(1, 400), st.data())
def test_the_end_of_a_shared_prefix_is_found_to_the_object(
    slots: int, length: int, data: st.DataObject
) -> None:
    shared = data.draw(st.integers(0, length))
    store = Store(slots)
    first = keys_of("first", length)
    store.write(first, range(length))
    second = keys_of("second", length, shared="first", until=shared)
    search, rounds, _ = found(store, [Chain(0, 16, tuple(second))])
    whole = shared if shared == length else shared // slots * slots
    assert search.tokens == 16 * whole
    assert set(search.sources()) == set(second[:whole])
    assert rounds <= 5


@given(slots, st.integers(1, 200), st.integers(0, 200))
def test_the_next_turn_of_a_conversation_finds_all_of_the_last_one(
    slots: int, length: int, more: int
) -> None:
    store, keys = Store(slots), keys_of("talk", length + more)
    store.write(keys, range(length))
    search, _, _ = found(store, [Chain(0, 16, tuple(keys))])
    assert search.tokens == 16 * length
    assert all(store.has(key, source) for key, source in search.sources().items())
    # And the turn after that finds both, though the object at the junction is in two pieces.
    store.write(keys, range(length, length + more))
    search, rounds, _ = found(store, [Chain(0, 16, tuple(keys))], store.writers)
    assert search.tokens == 16 * (length + more)
    assert all(store.has(key, source) for key, source in search.sources().items())
    assert rounds == 0


@given(slots, st.sets(st.integers(0, 40)), st.integers(1, 41))
def test_whatever_is_missing_rounds_end_and_answers_are_kept(
    slots: int, stored: set[int], length: int
) -> None:
    store, keys = Store(slots), keys_of("prompt", length)
    for index in stored:
        if index < length:
            store.write(keys, range(index, index + 1))
    search, rounds, questions = found(store, [Chain(0, 16, tuple(keys))])
    assert rounds <= 8
    assert questions <= 256
    sources = search.sources()
    assert list(sources) == keys[: len(sources)]
    anchors = {source.anchor for source in sources.values()}
    asked_and_missing = [anchor for anchor in anchors if anchor not in store.objects]
    # Only what lies before an object that is there is taken to exist.
    assert all(keys.index(anchor) < max(stored, default=0) for anchor in asked_and_missing)


@given(
    slots=slots,
    length=st.integers(8, 120),
    window=st.integers(1, 8),
    shared=st.integers(0, 120),
)
def test_tails_are_found_at_the_end_of_what_is_shared(
    slots: int, length: int, window: int, shared: int
) -> None:
    store, shared = Store(slots), min(shared, length)
    full, tails = keys_of("a", length), keys_of("a", length, group=1)
    store.write(full, range(length))
    for end in {length, shared}:
        store.write(tails, range(max(0, end - window), end))
    chains = [
        Chain(0, 16, tuple(keys_of("b", length, shared="a", until=shared))),
        Chain(1, 16, tuple(keys_of("b", length, group=1, shared="a", until=shared)), window),
    ]
    search, rounds, _ = found(store, chains)
    sources = search.sources()
    assert all(store.has(key, source) for key, source in sources.items())
    whole = search.tokens // 16
    if whole == shared and shared:
        wanted = chains[1].keys[max(0, shared - window) : shared]
        assert set(wanted) <= set(sources)
    assert rounds <= 12


def test_where_no_prefix_is_there_tails_are_asked_for_once() -> None:
    store = Store(1)
    chains = [
        Chain(0, 16, tuple(keys_of("x", 260))),
        Chain(1, 16, tuple(keys_of("x", 260, group=1)), 2),
    ]
    search, rounds, questions = found(store, chains)
    assert (search.tokens, dict(search.sources()), rounds) == (0, {}, 1)
    assert questions == 16 + 5


def test_100_000_tokens_take_few_questions() -> None:
    store = Store(1)
    keys, tails = keys_of("x", 260), [keys_of("x", 260, group=group) for group in (1, 2, 3)]
    store.write(keys, range(260))
    for each in tails:
        store.write(each, range(258, 260))
    chains = [
        Chain(0, 384, tuple(keys)),
        *(Chain(1 + n, 384, tuple(k), 2) for n, k in enumerate(tails)),
    ]
    search, rounds, questions = found(store, chains)
    assert (search.tokens, rounds, questions) == (99_840, 1, 16 + 3 * 5)
    assert len(search.sources()) == 260 + 3 * 2


def test_a_known_gap_ends_the_prefix_and_is_not_asked_for() -> None:
    store, keys, known = Store(1), keys_of("x", 40), Presence()
    store.write(keys, range(40))
    known.gone(keys[7])
    search, _, _ = found(store, [Chain(0, 16, tuple(keys))], known)
    assert search.tokens == 7 * 16
