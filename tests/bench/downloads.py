"""`python -m tests.bench.downloads`: a download beside the store's plain throughput, in one run.

The store is on loopback and sends files as fast as the kernel does (sendfile). Plain is curl, which
writes the same bytes to the same disk with as many ranges at once and checks nothing.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

from aiohttp import web
from tests.bench.figure import Figure, table
from tests.support.engine.pod import RUNTIME
from tests.support.ports import free_ports
from tests.support.weights.fetching import fetch_plan
from tests.support.weights.store import leading_to

from kindling_runtime import contract
from kindling_runtime.weights.download import SLOTS

FILES, SIZE = 4, 512 << 20
ROUNDS = 3


def main() -> int:
    """Measure, or with `serve FOLDER PORT` be the store."""
    if sys.argv[1:2] == ["serve"]:
        web.run_app(_store(Path(sys.argv[2])), host="127.0.0.1", port=int(sys.argv[3]), print=None)
        return 0
    print(table(figures()))
    return 0


def figures() -> list[Figure]:
    """Ratio to plain, resident memory, bytes of a second fetch."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "files").mkdir()
        for number in range(FILES):
            with (root / f"files/model-{number}.safetensors").open("wb") as file:
                # By small pieces: a child's largest resident set begins with its parent's.
                for _ in range(SIZE >> 20):
                    file.write(os.urandom(1 << 20))
        port = free_ports(1)[0]
        command = (sys.executable, "-m", "tests.bench.downloads", "serve")
        store = subprocess.Popen((*command, str(root / "files"), str(port)))
        try:
            _until(lambda: _answers(port))
            ours, plain, work = [], [], []
            for number in range(ROUNDS):
                plain.append(_plain(root / f"plain-{number}", port))
                seconds, resident, cpu = _ours(root / f"ours-{number}", port)
                ours.append(seconds)
                work.append(cpu * (1 << 30) / (FILES * SIZE))
        finally:
            store.kill()
            store.wait()
    rates = tuple(p / o for p, o in zip(plain, ours, strict=True))
    mib = FILES * SIZE / (1 << 20)
    return [
        Figure(
            "download, share of plain throughput",
            "x",
            rates,
            target=0.8,
            at_least=True,
            note=f"{mib / min(ours):.0f} MiB/s beside {mib / min(plain):.0f} MiB/s",
        ),
        Figure("CPU of a download", "s/GiB", tuple(work)),
        Figure("resident memory of a download", "MiB", (resident,), target=200),
    ]


def _ours(folder: Path, port: int) -> tuple[float, float, float]:
    """Seconds of a fetch without the start of its process, its largest resident set in MiB, and its
    CPU seconds."""
    folder.mkdir()
    plan = fetch_plan("s3://weights/tiny", folder / "volume")
    (folder / "plan.json").write_bytes(contract.encode(plan))
    environment = {**os.environ, **leading_to(f"http://127.0.0.1:{port}")}
    command = (str(RUNTIME), "fetch", "--plan", str(folder / "plan.json"))
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    _until((folder / "volume").exists)
    begun = time.monotonic()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begun
    assert status == 0
    shutil.rmtree(folder)
    return seconds, used.ru_maxrss / 1024, used.ru_utime + used.ru_stime


def _plain(folder: Path, port: int) -> float:
    folder.mkdir()
    urls = "\n".join(
        f'url = "http://127.0.0.1:{port}/weights/tiny/model-{number}.safetensors"\n'
        f'output = "{folder}/{number}-{start}"\nrange = "{start}-{start + SIZE // 4 - 1}"\nnext'
        for number in range(FILES)
        for start in range(0, SIZE, SIZE // 4)
    )
    (folder / "list").write_text(urls.removesuffix("next"))
    begun = time.monotonic()
    how = ("--silent", "--no-progress-meter", "--parallel", "--parallel-immediate")
    most = ("--parallel-max", str(SLOTS))
    subprocess.run(("curl", *how, *most, "--config", str(folder / "list")), check=True)
    # What we do too: on the disk, not in its cache.
    os.sync()
    seconds = time.monotonic() - begun
    shutil.rmtree(folder)
    return seconds


def _store(folder: Path) -> web.Application:
    """S3's listing, and files as they are."""
    rows = "".join(
        f"<Contents><Key>tiny/{path.name}</Key><Size>{path.stat().st_size}</Size>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>{escape(_etag(path))}</ETag></Contents>"
        for path in sorted(folder.iterdir())
    )
    text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"

    async def listing(_: web.Request) -> web.Response:
        return web.Response(text=text, content_type="application/xml")

    app = web.Application()
    app.router.add_get("/weights", listing)
    app.router.add_static("/weights/tiny", folder)
    return app


def _until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.005)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _etag(path: Path) -> str:
    """As aiohttp makes it."""
    stat = path.stat()
    return f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"'


if __name__ == "__main__":
    sys.exit(main())
