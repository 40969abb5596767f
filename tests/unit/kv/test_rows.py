"""What is copied out of and into the primary tier's memory."""

import numpy as np
import pytest
from tests.support.kv.prompts import keys_of

from kindling_runtime.kv.policy.layout import Layout
from kindling_runtime.kv.policy.reads import Wanted
from kindling_runtime.kv.rows import Rows, encoded, part, wrong

LAYOUT = Layout(3, 64)
KEYS = keys_of("p", 3)


def whole() -> bytes:
    rows = [np.full(64, number, np.uint8) for number in (2, 1, 0)]
    return b"".join(bytes(each) for each in encoded(KEYS[::-1], rows, LAYOUT))


def wanted(key: bytes, back: int) -> Wanted:
    return Wanted(key, 0, 0, 0, KEYS[2], back)


def test_an_object_has_its_chunks_from_the_anchor_back() -> None:
    data = memoryview(whole())
    assert len(data) == LAYOUT.size(3)
    for back, key in enumerate(KEYS[::-1]):
        assert wrong(data, [wanted(key, back)], LAYOUT) == {}
        assert bytes(part(data, wanted(key, back), LAYOUT)) == bytes([2 - back]) * 64


def test_a_chunk_in_the_place_of_another_is_wrong() -> None:
    assert wrong(memoryview(whole()), [wanted(KEYS[0], 1)], LAYOUT) == {
        KEYS[0]: "it is another chunk"
    }


def test_a_chunk_that_an_object_never_had_is_not_damage() -> None:
    rows = [np.zeros(64, np.uint8)]
    data = b"".join(bytes(each) for each in encoded(KEYS[2:], rows, LAYOUT))
    assert wrong(memoryview(data), [wanted(KEYS[1], 1)], LAYOUT) == {KEYS[1]: ""}


def test_memory_that_was_given_back_is_not_touched() -> None:
    memory = np.zeros((2, 64), np.uint8)
    rows = Rows(memory.data)
    rows.place(1, memoryview(b"\x07" * 64))
    assert memory[1].tolist() == [7] * 64
    rows.release()
    with pytest.raises(RuntimeError, match="was given back"):
        rows.place(0, memoryview(b"\x07" * 64))
    assert not memory[0].any()
