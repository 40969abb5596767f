"""Files and numbers that others write: none stops the runtime, none is believed blindly."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kindling_runtime import answers, enginefacts, foreign, wire
from kindling_runtime.front import asgi, board
from kindling_runtime.front.board import FOLDER_VARIABLE, Board, Cell, Order
from kindling_runtime.front.keeper import Keeper
from kindling_runtime.plugins import record, telling
from kindling_runtime.weights.parts import RemoteFile, impossible, unsafe

WORDS = 8 * len(Cell)


@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        Path.mkdir,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.write_bytes(b"x" * 101),
        lambda path: None,
    ],
    ids=("fifo", "folder", "device", "long", "nothing"),
)
def test_what_is_no_short_regular_file_is_no_content(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    make(tmp_path / "file")
    with pytest.raises(OSError, match=r"regular|bytes|No such"):
        foreign.content(tmp_path / "file", most=100)


def test_the_content_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert foreign.content(tmp_path / "file", most=100) == b"x" * 100


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[1]", b'{"a":"\xff"}', b'{"b":' + b"[" * 1_000_000, b'{"a":1}x']
)
def test_what_is_not_of_the_shape_is_none(data: bytes) -> None:
    assert wire.decoded(data, dict[str, int]) is None


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: os.mkfifo(folder / "2"),
        lambda folder: (folder / "2").mkdir(),
        lambda folder: (folder / "2").write_bytes(b""),
        lambda folder: (folder / "2").write_bytes(bytes(WORDS - 1)),
        lambda folder: (folder / "2").write_bytes(bytes(WORDS + 8)),
    ],
    ids=("fifo", "folder", "empty", "short", "long"),
)
def test_where_one_server_does_not_count_nobody_believes_the_others(
    harm: Callable[[Path], Any], tmp_path: Path
) -> None:
    Board(tmp_path)
    assert board.read(tmp_path) is not None
    harm(tmp_path)
    assert board.read(tmp_path) is None


def test_counts_are_never_less_than_nothing_nor_more_than_a_number_holds(tmp_path: Path) -> None:
    for number, word in enumerate((b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"\xff" * 7 + b"\x7f")):
        (tmp_path / str(number)).write_bytes(word * len(Cell))
    counts = board.read(tmp_path)
    assert counts is not None
    assert set(counts.values()) == {(1 << 63) - 1}
    msgspec.json.encode(list(counts.values()))


@pytest.mark.parametrize("harm", ["truncated", "deleted", "overwritten"])
def test_an_order_is_given_whatever_became_of_its_file(
    harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper()
    folder = Path(keeper.environment[FOLDER_VARIABLE])
    file = folder / "order"
    if harm == "truncated":
        os.truncate(file, 0)  # to touch a mapped page of it would be the end of the process
    elif harm == "deleted":
        file.unlink()
    else:
        file.write_bytes(b"\xff" * 8)
    keeper.order(Order.REFUSE)
    if harm != "deleted":
        assert file.read_bytes() == int(Order.REFUSE).to_bytes(8, "little")
    keeper.close()


async def test_a_request_that_the_order_overtakes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gave the order counts next, and stops the engine where nothing runs."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    sent: list[Any] = []

    class Overtaken(asgi.Front):
        def _look(self) -> None:
            board.OrderBook(tmp_path).cells[0] = Order.REFUSE

    async def app(*_: Any) -> None:
        raise AssertionError("it was served")

    async def receive() -> asgi.Message:
        return {"type": "http.request", "body": b""}

    async def send(message: asgi.Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/completions"}
    await Overtaken(app)(scope, receive, send)
    assert sent[0]["status"] == 503
    counts = board.read(tmp_path)
    assert counts is not None
    assert (counts[Cell.ACTIVE], counts[Cell.REFUSED]) == (0, 1)


async def test_a_refused_request_without_end_is_not_heard_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(asgi, "_BODY_SECONDS", 0.05)
    board.OrderBook(tmp_path).cells[0] = Order.REFUSE
    sent: list[Any] = []

    async def receive() -> asgi.Message:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(message: asgi.Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/completions"}
    async with asyncio.timeout(30):
        await asgi.Front(receive)(scope, receive, send)  # type: ignore[arg-type]
    assert sent[0]["status"] == 503


def test_what_the_engine_left_for_the_status_cannot_stop_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "1.json")
    os.mkfifo(tmp_path / "1.facts")
    (tmp_path / "2.json").write_bytes(b'[{"name":"\xff"}]')
    (tmp_path / "2.facts").write_bytes(b'{"attention_backends":"\xff"}')
    done = threading.Event()

    def read() -> None:
        record.read(tmp_path, ("split",))
        telling.read(tmp_path)
        done.set()

    threading.Thread(target=read, daemon=True).start()
    assert done.wait(30)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "1e300", "1e19"])
def test_a_count_that_counts_nothing_is_none(value: str) -> None:
    text = f'http_requests_total{{handler="/v1/models",method="GET"}} {value}\n'
    assert answers.counted(text) == 0


@pytest.mark.parametrize("value", ["9" * 5000, "9" * 30, "-1", "NaN"])
def test_a_size_that_is_none_is_left_out(value: str) -> None:
    found = enginefacts.told(f'vllm:cache_config_info{{num_gpu_blocks="{value}"}} 1\n')
    assert found is not None
    assert found.kv_blocks is None


@pytest.mark.parametrize(
    "path",
    ["a\0b", "a\nb", "a\ud800", "\x1b[31m", "a" * 256, "a/" * 600 + "b", "ä" * 128, "/a", "a//b"],
)
def test_no_file_has_such_a_name(path: str) -> None:
    assert unsafe(path)


@pytest.mark.parametrize(
    ("files", "wrong"),
    [
        ([("a", 1), ("b/c", 0)], None),
        ([("a", 1), ("a", 1)], "a"),
        ([("a/b", 1), ("a", 1)], "a/b"),
        ([("a/b/c", 1), ("a", 0)], "a/b/c"),
        ([("a", -1)], "a"),
    ],
)
def test_what_no_folder_holds_beside_the_others(
    files: list[tuple[str, int]], wrong: str | None
) -> None:
    found = impossible([RemoteFile(path, size) for path, size in files])
    assert (found and found.path) == wrong
