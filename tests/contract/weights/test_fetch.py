"""Downloads by the real process, over stores that a test can break."""

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest
from tests.support.engine.pod import ROOM
from tests.support.faultpage import Fault, Kind, Under
from tests.support.weights import fetching as runs
from tests.support.weights import store as stores
from tests.support.weights.fetching import ENDS_WITHIN, published
from tests.support.weights.resuming import MORE, Resuming, until_stuck
from tests.support.weights.store import files_of

from kindling_runtime.contract import ExitCode, Phase, Reason

MIB = 1 << 20
QUICK = ("--lease-seconds", "3")


@pytest.mark.parametrize("kind", ["hub_uri", "s3_uri"])
async def test_a_source_arrives_whole_and_the_second_fetch_downloads_nothing(
    kind: str, tmp_path: Path
) -> None:
    async with stores.running(files_of(3 * MIB, 70_000, 0)) as store:
        plan = runs.fetch_plan(getattr(store, kind), tmp_path / "volume")
        first = await runs.fetched(plan, tmp_path / "a", store.environment)
        assert (first.process.returncode, first.reason) == (0, Reason.WEIGHTS_READY), first.log
        assert published(tmp_path / "volume") == store.files
        assert store.sent == store.size

        second = await runs.fetched(plan, tmp_path / "b", store.environment, pod="pod-2")
        assert second.message == "3.1 MiB are in the cache"
        assert store.sent == store.size


@pytest.mark.parametrize("kind", ["hub_uri", "s3_uri"])
async def test_a_fetch_that_is_killed_goes_on_where_it_was(
    kind: str, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        f"SIGKILL twice while it downloads ({kind})",
        "goes on; only what was on its way comes again",
        under=Under.STORE,
    )
    async with stores.running(files_of(32 * MIB), hangs_after=MORE) as store:
        plan = runs.fetch_plan(getattr(store, kind), tmp_path / "volume")
        resuming = Resuming(store, tmp_path / "volume")
        for _ in range(2):
            async with runs.fetching(plan, tmp_path / "a", store.environment) as run:
                await resuming.until_stuck(run)
                run.process.kill()
            resuming.ended()
            store.hangs_after = store.sent + MORE
        store.hangs_after = None
        fault.begins()
        last = await runs.fetched(plan, tmp_path / "a", store.environment)
        assert last.process.returncode == 0, last.log
        fault.within(ENDS_WITHIN, "the rest is there")
        assert published(tmp_path / "volume") == store.files
        resuming.nothing_came_again()
        # What was on its way at each kill comes again: ten requests of 1 MiB at most.
        assert store.sent <= store.size + 2 * 10 * MIB
        fault.note(f"{(store.sent - store.size) / MIB:.1f} of 32 MiB came again")
        assert "Downloading" in last.log


async def test_two_pods_make_one_download_and_the_second_shows_how_far_it_is(
    tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        "two pods at once",
        "one download; the other shows its bytes",
        under=Under.STORE,
    )
    async with stores.running(files_of(12 * MIB), hangs_after=2 * MIB) as store:
        volume = tmp_path / "volume"
        one, two = (runs.fetch_plan(store.hub_uri, volume) for _ in range(2))
        async with runs.fetching(one, tmp_path / "a", store.environment) as first:
            await until_stuck(store, first)
            async with runs.fetching(two, tmp_path / "b", store.environment, pod="p2") as second:
                status = await second.says(Reason.WAITING_FOR_DOWNLOAD)
                assert status.phase is Phase.DOWNLOADING
                while status.download is None:  # it has not looked at the other's yet
                    await asyncio.sleep(0.1)
                    status = await second.says(Reason.WAITING_FOR_DOWNLOAD)
                assert status.download.total == store.size
                assert status.download.fetched == 0
                assert " of 12.0 MiB" in status.message
                store.hangs_after = None
                fault.begins()
                assert await first.exit_status() == await second.exit_status() == 0
                fault.within(ENDS_WITHIN, "both have it")
        assert store.sent == store.size


async def test_a_download_whose_pod_died_is_taken_over(tmp_path: Path, fault: Fault) -> None:
    fault.row(
        Kind.WEIGHTS,
        "the downloading pod dies",
        "taken over when its lease has not moved for its time (90 s, here 3)",
        under=Under.STORE,
    )
    async with stores.running(files_of(16 * MIB), hangs_after=MORE) as store:
        plan = runs.fetch_plan(store.s3_uri, tmp_path / "volume")
        resuming = Resuming(store, tmp_path / "volume")
        async with runs.fetching(plan, tmp_path / "a", store.environment) as first:
            await resuming.until_stuck(first)
            first.process.kill()
        resuming.ended()
        store.hangs_after = None
        fault.begins()
        async with runs.fetching(
            plan, tmp_path / "b", store.environment, pod="pod-2", arguments=QUICK
        ) as second:
            await second.says(Reason.WAITING_FOR_DOWNLOAD)
            assert await second.exit_status() == 0
        fault.within(3 + ENDS_WITHIN, "taken over and whole")
        assert published(tmp_path / "volume") == store.files
        resuming.nothing_came_again()
        assert store.sent <= store.size + 10 * MIB


async def test_a_pod_that_was_paused_leaves_the_download_to_who_took_over(
    tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        "the downloading pod is paused and comes back",
        "it leaves the download to who took over",
        under=Under.STORE,
    )
    async with stores.running(files_of(8 * MIB), hangs_after=MIB) as store:
        plan = runs.fetch_plan(store.s3_uri, tmp_path / "volume")
        other = runs.fetch_plan(store.s3_uri, tmp_path / "volume")
        async with (
            runs.fetching(plan, tmp_path / "a", store.environment, arguments=QUICK) as first,
            runs.fetching(
                other, tmp_path / "b", store.environment, pod="pod-2", arguments=QUICK
            ) as second,
        ):
            await until_stuck(store, first)
            paused, runner = (first, second) if "listing" in first.log else (second, first)
            fault.begins()
            paused.process.send_signal(signal.SIGSTOP)
            await runner.printed("Downloading Downloading")
            fault.within(3 + ENDS_WITHIN, "taken over")
            paused.process.send_signal(signal.SIGCONT)
            store.hangs_after = None
            assert await first.exit_status() == await second.exit_status() == 0, (
                first.log + second.log
            )
        assert published(tmp_path / "volume") == store.files


async def test_who_goes_on_writing_what_the_source_had_before_changes_nothing(
    tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        "a process that was frozen while the source changed goes on and writes what it had then",
        "what is published is the new content, to the byte",
        under=Under.STORE,
    )
    name = "model-00000.safetensors"
    partial = tmp_path / "volume" / "partial" / runs.KEY
    partial.mkdir(parents=True)
    async with stores.running(files_of(2 * MIB)) as store:
        with (partial / name).open("wb") as frozen:
            fault.begins()
            plan = runs.fetch_plan(store.s3_uri, tmp_path / "volume")
            run = await runs.fetched(plan, tmp_path / "a", store.environment)
            assert run.process.returncode == 0, run.log
            fault.within(ENDS_WITHIN, "published")
            frozen.write(b"what the source had then")
        assert published(tmp_path / "volume") == store.files


async def test_sigterm_keeps_what_has_come_and_lets_the_next_pod_in_at_once(
    tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        "SIGTERM while it downloads",
        "what has come is kept, the lease is given back; exit 78, `TerminationRequested`",
        under=Under.STORE,
    )
    async with stores.running(files_of(16 * MIB), hangs_after=MORE) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path / "volume")
        resuming = Resuming(store, tmp_path / "volume")
        async with runs.fetching(plan, tmp_path / "a", store.environment) as first:
            await resuming.until_stuck(first)
            fault.begins()
            first.process.terminate()
            assert await first.exit_status() == ExitCode.PREFLIGHT
            fault.within(ROOM, "exit 78")
            assert first.reason is Reason.TERMINATION_REQUESTED
        resuming.ended()
        store.hangs_after = None
        second = await runs.fetched(plan, tmp_path / "b", store.environment, pod="pod-2")
        assert second.process.returncode == 0
        assert "WaitingForDownload" not in second.log
        resuming.nothing_came_again()
        assert store.sent <= store.size + 10 * MIB


async def given_up(uri: str, store: stores.Store, place: Path, fault: Fault) -> runs.Fetching:
    """A fetch that ends because nothing comes, or too little."""
    plan = runs.fetch_plan(uri, place / "volume", stall_seconds=3)
    fault.begins()
    run = await runs.fetched(plan, place / "a", store.environment)
    assert run.process.returncode == ExitCode.PREFLIGHT, run.log
    fault.within(3 + ENDS_WITHIN, "exit 78")
    assert run.reason is Reason.STORE_STALLED
    return run


@pytest.mark.parametrize("kind", ["hub_uri", "s3_uri"])
@pytest.mark.parametrize("hangs_after", [0, 2 * MIB])
async def test_a_store_that_hangs_ends_in_one_sentence(
    kind: str, hangs_after: int, tmp_path: Path, fault: Fault
) -> None:
    where = "in a file" if hangs_after else "at the list"
    fault.row(
        Kind.WEIGHTS,
        f"the store hangs {where} ({kind})",
        "asked again; `StoreStalled` after `stallSeconds` (300, here 3) without a byte, exit 78",
        under=Under.STORE,
    )
    async with stores.running(files_of(6 * MIB), hangs_after=hangs_after) as store:
        run = await given_up(getattr(store, kind), store, tmp_path, fault)
        assert " for 3 s" in run.message
        assert "see whether" in run.message


@pytest.mark.parametrize(
    ("kind", "lack"),
    [
        ("hub_uri", "less than 1.0 KiB/s of weights has come for "),
        ("s3_uri", "no byte of weights has come for "),  # less than a piece is not handed on
    ],
)
async def test_a_store_that_sends_byte_by_byte_is_given_up(
    kind: str, lack: str, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        f"the store sends one byte at a time ({kind})",
        "`StoreStalled` after `stallSeconds` (300, here 3) at less than 1 KiB/s, exit 78",
        under=Under.STORE,
    )
    async with stores.running(files_of(6 * MIB), drips=True) as store:
        run = await given_up(getattr(store, kind), store, tmp_path, fault)
        assert run.message.startswith(lack)
        assert run.message.partition("(")[2].startswith("it accepts and sends ")


async def test_a_store_that_is_slow_is_waited_for_longer_than_the_bound(
    tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        "the store is slow (250 kB/s)",
        "waited for while bytes come, longer than `stallSeconds` (here 3)",
        under=Under.STORE,
    )
    async with stores.running(files_of(MIB), bytes_per_second=250_000) as store:
        plan = runs.fetch_plan(store.s3_uri, tmp_path / "volume", stall_seconds=3)
        fault.begins()
        run = await runs.fetched(plan, tmp_path / "a", store.environment)
        assert run.process.returncode == 0, run.log
        fault.within(5 + ENDS_WITHIN, "whole")


@pytest.mark.parametrize("kind", ["hub_uri", "s3_uri"])
async def test_failures_and_cut_connections_are_tried_again(
    kind: str, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        f"three times 503 and three cut connections ({kind})",
        "asked again from where they stopped",
        under=Under.STORE,
    )
    async with stores.running(files_of(4 * MIB), failures=3, cuts=3) as store:
        plan = runs.fetch_plan(getattr(store, kind), tmp_path / "volume")
        fault.begins()
        run = await runs.fetched(plan, tmp_path / "a", store.environment)
        assert run.process.returncode == 0, run.log
        fault.within(10 + ENDS_WITHIN, "whole")
        assert published(tmp_path / "volume") == store.files
        # A range that was cut off goes on from where it was.
        assert store.sent <= store.size + MIB


@pytest.mark.parametrize(
    ("kind", "status", "words"),
    [
        ("hub_uri", 401, "the hub refuses hf://org/tiny with HTTP 401; correct"),
        ("hub_uri", 404, "the hub refuses hf://org/tiny with HTTP 404; correct"),
        ("s3_uri", 403, "s3://weights/models/tiny refuses the pod's identity"),
        ("s3_uri", 404, "s3://weights/models/tiny does not exist"),
    ],
    ids=("hub-401", "hub-404", "s3-403", "s3-404"),
)
async def test_a_refusal_is_told_at_once(
    kind: str, status: int, words: str, tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        f"HTTP {status} ({kind})",
        "at once: `StoreRefused` with whose right is missing, exit 78",
        under=Under.STORE,
    )
    async with stores.running(files_of(MIB), refuses=status) as store:
        plan = runs.fetch_plan(getattr(store, kind), tmp_path / "volume")
        fault.begins()
        run = await runs.fetched(plan, tmp_path / "a", store.environment)
        fault.within(ENDS_WITHIN, "exit 78")
        assert run.process.returncode == ExitCode.PREFLIGHT
        assert run.reason is Reason.STORE_REFUSED
        assert run.message.startswith(words), run.message


async def test_an_empty_prefix_is_refused(tmp_path: Path) -> None:
    async with stores.running({}) as store:
        plan = runs.fetch_plan(store.s3_uri, tmp_path / "volume")
        run = await runs.fetched(plan, tmp_path / "a", store.environment)
        assert run.message.startswith("s3://weights/models/tiny holds no file;")


async def test_the_token_goes_to_the_hub_and_to_nobody_else(tmp_path: Path) -> None:
    async with stores.running(files_of(2 * MIB), token="secret") as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path / "volume")
        environment = {**store.environment, "HF_TOKEN": "secret"}
        run = await runs.fetched(plan, tmp_path / "a", environment)
        assert run.process.returncode == 0, run.log
        assert store.signed_for_strangers == 0
        assert "secret" not in run.log


async def test_a_file_in_xet_storage_comes_by_http_when_xet_is_of_no_use(tmp_path: Path) -> None:
    async with stores.running(files_of(2 * MIB), xet=True) as store:
        plan = runs.fetch_plan(store.hub_uri, tmp_path / "volume")
        run = await runs.fetched(plan, tmp_path / "a", store.environment)
        assert run.process.returncode == 0, run.log
        assert "going on by HTTP" in run.log
        assert any("xet-read-token" in asked for asked in store.asked)
        assert published(tmp_path / "volume") == store.files


async def test_an_object_that_changes_under_the_download_is_listed_again(
    tmp_path: Path, fault: Fault
) -> None:
    fault.row(
        Kind.WEIGHTS,
        "an object changes meanwhile",
        "listed again, three times at most; what comes is the new one, whole",
        under=Under.STORE,
    )
    async with stores.running(files_of(24 * MIB), hangs_after=2 * MIB) as store:
        plan = runs.fetch_plan(store.s3_uri, tmp_path / "volume")
        async with runs.fetching(plan, tmp_path / "a", store.environment) as run:
            await until_stuck(store, run)
            store.files["model-00000.safetensors"] = os.urandom(20 * MIB)
            store.hangs_after = None
            fault.begins()
            assert await run.exit_status() == 0, run.log
            fault.within(5 + ENDS_WITHIN, "whole")
        assert published(tmp_path / "volume") == store.files


async def test_status_tells_bytes_rate_and_time(tmp_path: Path) -> None:
    async with stores.running(files_of(8 * MIB), bytes_per_second=50_000) as store:
        plan = runs.fetch_plan(store.s3_uri, tmp_path / "volume")
        async with runs.fetching(plan, tmp_path / "a", store.environment) as run:
            async with asyncio.timeout(45):
                while True:
                    status = await run.says(Reason.DOWNLOADING)
                    told = status.download
                    if told is not None and told.seconds_left and told.bytes > 1000:
                        break
            assert told.total == store.size
            assert 0 < told.bytes == told.fetched < store.size
            assert told.bytes_per_second
            assert re.fullmatch(
                r"Downloading \d\.\d of 8\.0 MiB, [\d.]+ [KM]iB/s, \d+ (s|min|h) left",
                status.message,
            )
            assert not status.ready
