"""Start a launch plan under the runtime, measure the way to the first token, and how it ends.

Usage: python -m tests.gpu.start PLAN RESULT [--streams 8] [--wedge]

The result, JSON: seconds from the runtime's start to the engine's and to readiness, when the
process of the engine's core began and what vLLM logged when, each change of /status with its
second, the engine's facts, resident memory of the runtime, and the end. Beside it lies the log,
each line with its second. With `--streams`, so many streams of 2,000 tokens run while the pod is
told to leave. With `--wedge` the engine's core is stopped instead. The environment is that of the
pod's container: give it the variables of the Deployment.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

RUNTIME: Final = "import sys; from kindling_runtime.cli import main; sys.exit(main())"
STATUS: Final = "http://127.0.0.1:9400/status"
COMPLETIONS: Final = "http://127.0.0.1:8000/v1/completions"
TOKENS: Final = 2000
LOGGED: Final = (
    "Loading model from scratch",
    "Model loading took",
    "GPU KV cache size",
    "Graph capturing finished",
    "init engine (",
    "Application startup complete",
)
"""Lines of vLLM 0.33.0 that part a start; those of the core come in this order."""


def status() -> dict[str, Any] | None:
    """What /status says; None while nothing answers."""
    try:
        with urllib.request.urlopen(STATUS, timeout=5) as answer:
            said: dict[str, Any] = json.loads(answer.read())
            return said
    except OSError:
        return None


class Pod:
    """The runtime with one plan, and what it was seen to say."""

    def __init__(self, plan: Path, log: Path) -> None:
        self._words = Path(tempfile.mkdtemp()) / "words"
        self._words.touch()
        self._log = log
        self.lines: list[tuple[float, str]] = []
        self.changes: list[tuple[float, str]] = []
        self.began = time.monotonic()
        command = (sys.executable, "-c", RUNTIME, "serve", "--plan", str(plan))
        self.process = subprocess.Popen(
            (*command, "--termination-log", str(self._words)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self._log.open("w") as log:
            for line in self.process.stdout:
                self.lines.append((self.seconds, line.decode(errors="replace").rstrip()))
                print("{:8.2f} {}".format(*self.lines[-1]), file=log, flush=True)

    def moments(self) -> dict[str, float]:
        """When the core's process began, and when each of `LOGGED` came first."""
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - _born(core())
        logged = {
            words: next((second for second, line in self.lines if words in line), -1.0)
            for words in LOGGED
        }
        return {"core": round(self.seconds - age, 2), **logged}

    @property
    def seconds(self) -> float:
        """Since its start."""
        return round(time.monotonic() - self.began, 2)

    def follow(self, until: str, seconds: float) -> dict[str, Any] | None:
        """Note each change of /status until it has the phase, the pod ends or the time is over."""
        end, last = time.monotonic() + seconds, None
        while time.monotonic() < end and self.process.poll() is None:
            last = status() or last
            if last is not None:
                told = f"{last['phase']}/{last['reason']}: {last['message']}"
                if not self.changes or self.changes[-1][1] != told:
                    self.changes.append((self.seconds, told))
                    print(f"{self.seconds:8.2f} {told}", flush=True)
                if last["phase"] == until:
                    break
            time.sleep(0.25)
        return last

    def resident(self) -> int:
        """Bytes of the runtime's own process."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")

    def end(self) -> dict[str, Any]:
        """How it ended."""
        began = time.monotonic()
        code = self.process.wait(timeout=700)
        took = round(time.monotonic() - began, 2)
        self._listener.join(timeout=60)
        return {"status": code, "seconds": took, "words": self._words.read_text()}


def core() -> int:
    """Process id of the engine's core, of which there must be one."""
    lines = {file.parent.name: _read(file) for file in Path("/proc").glob("[0-9]*/cmdline")}
    (found,) = (int(pid) for pid, line in lines.items() if b"EngineCore" in line)
    return found


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""  # it has ended


def _born(pid: int) -> float:
    """Seconds from boot to the start of a process (proc(5): field 22 of stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def stream(ends: list[Any]) -> None:
    """One stream: tokens, finish reason and whether its end came."""
    body = {
        "model": "flint",
        "prompt": "w1 w2 w3",
        "max_tokens": TOKENS,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    request = urllib.request.Request(
        COMPLETIONS, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    counted, reason, done = 0, None, False
    with urllib.request.urlopen(request, timeout=600) as answer:
        for line in answer:
            text = line.decode().removeprefix("data: ").strip()
            done = done or text == "[DONE]"
            if text.startswith("{"):
                event = json.loads(text)
                counted = (event.get("usage") or {}).get("completion_tokens", counted)
                for choice in event.get("choices", ()):
                    reason = choice["finish_reason"] or reason
    ends.append([counted, reason, done])


def leave(pod: Pod, streams: int) -> dict[str, Any]:
    """Told to leave while streams run."""
    ends: list[Any] = []
    clients = [threading.Thread(target=stream, args=(ends,)) for _ in range(streams)]
    for client in clients:
        client.start()
    time.sleep(2)
    pod.process.send_signal(signal.SIGTERM)
    told = time.monotonic()
    for client in clients:
        client.join()
    return {"ends": ends, "finished": round(time.monotonic() - told, 2), **pod.end()}


def wedge(pod: Pod) -> dict[str, Any]:
    """The engine's core is stopped: seconds to the end of readiness, and to that of the pod."""
    os.kill(core(), signal.SIGSTOP)
    stopped = time.monotonic()
    pod.follow("Stalled", 200)
    unready = round(time.monotonic() - stopped, 2)
    pod.follow("Failed", 200)
    return {"unready": unready, "failed": round(time.monotonic() - stopped, 2), **pod.end()}


def main() -> None:
    """Print the result, and write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("plan", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--wedge", action="store_true")
    parser.add_argument("--seconds", type=float, default=1100)
    given = parser.parse_args()
    pod = Pod(given.plan, given.result.with_suffix(".log"))
    last = pod.follow("Ready", given.seconds)
    ready = bool(last and last["phase"] == "Ready")
    result: dict[str, Any] = {"ready": ready, "seconds": pod.seconds, "status": last}
    if ready:
        time.sleep(1)
        result |= {"status": status(), "resident": pod.resident(), "moments": pod.moments()}
        result["end"] = wedge(pod) if given.wedge else leave(pod, given.streams)
    else:
        pod.process.terminate()
        result["end"] = pod.end()
    result["changes"] = pod.changes
    given.result.write_text(json.dumps(result, indent=1))
    print(json.dumps(result)[:6000])


if __name__ == "__main__":
    main()
