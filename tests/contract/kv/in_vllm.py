"""The tier under vLLM's own manager; runs with the Python of the CPU image, over a real store.

Writes one line of JSON at its end: what each story has seen.
"""

import hashlib
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import vllm
from tests.support.kv import offload
from tests.support.kv.offload import Offload
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

from kindling_runtime.kv import telling
from kindling_runtime.kv.counts import Counts
from kindling_runtime.kv.engine import Engine
from kindling_runtime.plugins import record

SMALL, LARGE = 256 << 10, 4 << 20
LONG = {"search": 20, "load": 30, "store": 30, "hold": 30}


def content(key: bytes, size: int) -> Any:
    """What the chunk with that key has in it."""
    seed = int.from_bytes(hashlib.sha256(key).digest()[:8], "big")
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def hashes(prompt: str, count: int, *, shared: str = "", until: int = 0) -> list[bytes]:
    """Of the chunks of a prompt, whose first `until` are those of another one."""
    above, found = b"", []
    for index in range(count):
        text = f"{shared if index < until else prompt}/{index}"
        above = hashlib.sha256(above + text.encode()).digest()
        found.append(above)
    return found


class Story:
    """Engines over one folder of the bucket, one after the other."""

    def __init__(self, uri: str, name: str, **more: Any) -> None:
        self.tier = {
            "uri": f"{uri}/{name}",
            "weights": "9c0fe1",
            "sharing": {"cluster": "test", "namespace": "ml"},
            "deadlines": LONG,
            **more,
        }

    def engine(self, *, chunk: int = SMALL, rows: int = 64, windows: Any = (None,)) -> Offload:
        """A new engine."""
        return offload.opened(chunk=chunk, rows=rows, tier=self.tier, windows=windows)


def written(engine: Offload) -> Counts:
    """Wait until all is written; what the tier has done so far."""
    engine.settle()
    found: Engine = engine.manager.secondary_tiers[0]._front.engine
    found.wait_idle(written=True)
    assert found.desk is not None
    return found.desk.counts


def store_all(engine: Offload, name: str, names: list[bytes], *, step: int = 7) -> None:
    """One request from its first chunk to its last."""
    prompt = engine.begin(name, names)
    engine.prefix(prompt)
    for first in range(0, len(names), step):
        engine.store(prompt, range(first, min(len(names), first + step)), content)
        engine.step()
    engine.finish(prompt)


def restored(engine: Offload, name: str, names: list[bytes]) -> tuple[int, bool]:
    """How many chunks a request finds from its beginning, and whether each is right."""
    prompt = engine.begin(name, names)
    found = engine.prefix(prompt)
    rows = [(engine.read(prompt, index), prompt.keys[0][index]) for index in range(found)]
    engine.finish(prompt)
    return found, all((row == content(bytes(key), len(row))).all() for row, key in rows)


def new_engine_restores(uri: str, chunk: int, count: int) -> dict[str, Any]:
    """What an engine has stored, the next one finds whole."""
    story, names = Story(uri, f"whole-{chunk}", admission="Always"), hashes("p", count)
    first = story.engine(chunk=chunk)
    store_all(first, "1", names)
    objects = written(first).stored_objects
    first.close()
    second = story.engine(chunk=chunk)
    found, right = restored(second, "2", names)
    stats = second.manager.get_stats().reduce()
    second.close()
    third = story.engine(chunk=chunk)
    shared, _ = restored(third, "3", hashes("q", count, shared="p", until=count // 2))
    third.close()
    told = telling.read(record.folder_of(os.environ))
    return {
        "objects": objects,
        "found": found,
        "right": right,
        "shared": shared,
        "hit_tokens": stats["kindling_kv_hit_tokens"],
        "loaded_bytes": stats["kindling_kv_loaded_bytes"],
        "declared": set(stats) - _declared(),
        "cache": told.reason if told else None,
    }


def second_use_is_written(uri: str) -> dict[str, Any]:
    """A prompt that came once is not; when it comes again its chunks are in the host tier."""
    story, names = Story(uri, "second"), hashes("p", 40)
    engine = story.engine()
    store_all(engine, "1", names)
    once = written(engine).stored_chunks
    store_all(engine, "2", [*names, *hashes("more", 4)])
    twice = written(engine).stored_chunks
    engine.close()
    other = story.engine()
    found, right = restored(other, "3", names)
    other.close()
    return {"once": once, "twice": twice, "found": found, "right": right}


def windows_are_found(uri: str) -> dict[str, Any]:
    """Of a group with a window only the tail is stored, and found."""
    story, names = Story(uri, "windows", admission="Always"), hashes("p", 40)
    first = story.engine(rows=128, windows=(None, 2))
    prompt = first.begin("1", names)
    keys, tails = prompt.keys
    first.prefix(prompt)
    for row, indexes in ((keys, range(40)), (tails, range(38, 40))):
        prompt.keys = [row]
        first.store(prompt, indexes, content)
    first.finish(prompt)
    written(first)
    first.close()
    second = story.engine(rows=128, windows=(None, 2))
    asked = second.begin("2", names)
    full = second.prefix(asked)
    asked.keys = [asked.keys[1][::-1]]
    tail = second.prefix(asked)
    second.finish(asked)
    second.settle()
    second.close()
    return {"full": full, "tail": tail}


def anything_goes(uri: str, seed: int) -> dict[str, Any]:
    """Requests in any order over a host tier that is too small, with resets between."""
    chance = random.Random(seed)
    story = Story(uri, f"any-{seed}", admission=chance.choice(["Always", "SecondUse"]))
    engine, wrong, read, hits = story.engine(rows=24), 0, 0, 0
    for number in range(60):
        names = hashes(chance.choice("pqr"), chance.randint(1, 40), shared="p", until=20)
        prompt = engine.begin(str(number), names)
        found = engine.prefix(prompt) if chance.random() < 0.8 else 0
        hits += found
        for index in range(min(found, 24)):
            read += 1
            copy = engine.read(prompt, index)
            wrong += not (copy == content(bytes(prompt.keys[0][index]), len(copy))).all()
        for first in range(found, len(names), 8):
            engine.store(prompt, range(first, min(len(names), first + 8)), content)
            if chance.random() < 0.5:
                engine.step()
        engine.finish(prompt)
        if chance.random() < 0.1:
            with engine.lock:
                engine.manager.reset_cache()
                getattr(engine.manager, "on_reset_flushed", lambda: None)()
    engine.settle()
    left = len(engine.manager._transfer_jobs)
    engine.close()
    return {"wrong": wrong, "read": read, "hits": hits, "left": left}


def refused_store_leaves_the_engine(uri: str) -> dict[str, Any]:
    """Nothing to ask with: the engine works without the tier."""
    token = os.environ.pop("AWS_WEB_IDENTITY_TOKEN_FILE")
    engine = Story(uri, "refused", admission="Always").engine()
    store_all(engine, "1", hashes("p", 10))
    engine.settle()
    here, right = restored(engine, "2", hashes("p", 10))
    missing, _ = restored(engine, "3", hashes("q", 10))
    engine.close()
    os.environ["AWS_WEB_IDENTITY_TOKEN_FILE"] = token
    told = telling.read(record.folder_of(os.environ))
    assert told is not None
    return {"here": here, "right": right, "missing": missing, "cache": [told.reason, told.message]}


def _declared() -> set[str]:
    spec = TieringOffloadingSpec
    tier = {"type": "ObjectTier", "module_path": "kindling_runtime.kv.tier"}
    names = spec.build_metric_definitions({"secondary_tiers": [tier]})
    ends = ("", "_count", "_sum")
    return {f"{name}{end}" for name in names for end in ends}


def main(uri: str) -> None:
    """All stories."""
    told = {
        "version": vllm.__version__,
        "package": str(Path(vllm.__file__).parent),
        "packed": new_engine_restores(uri, SMALL, 40),
        "alone": new_engine_restores(uri, LARGE, 6),
        "second": second_use_is_written(uri),
        "windows": windows_are_found(uri),
        "any": [anything_goes(uri, seed) for seed in range(3)],
        "refused": refused_store_leaves_the_engine(uri),
    }
    for each in ("packed", "alone"):
        # A metric with labels is told as NAME:('label',) here.
        told[each]["declared"] = sorted(n for n in told[each]["declared"] if ":(" not in n)
    sys.stdout.write(json.dumps(told, default=str) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
