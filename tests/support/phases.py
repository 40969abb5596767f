"""What a person sees of an InferenceModel while it changes: each state once, in order."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.support.kube import AWAY, MODEL, Condition, Kube, KubectlError, conditions

LOOK_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True)
class Phase:
    """One state: seconds since the recording began, conditions, and what kubectl printed for it."""

    seconds: float
    conditions: dict[str, Condition]
    narrow: str
    wide: str
    described: str


@dataclass(slots=True)
class Recording:
    """The phases seen so far, oldest first."""

    phases: list[Phase] = field(default_factory=list)

    def of(self, condition: str) -> list[Condition]:
        """The values of one condition, in order, each run of equal ones once."""
        seen: list[Condition] = []
        for phase in self.phases:
            found = phase.conditions.get(condition)
            if found is not None and (not seen or seen[-1] != found):
                seen.append(found)
        return seen

    def __str__(self) -> str:
        return "\n".join(f"{phase.seconds:6.1f} s\n{phase.wide}" for phase in self.phases)


@contextmanager
def recorded(kube: Kube, name: str, namespace: str) -> Iterator[Recording]:
    """Record the phases of one object, also before it exists, while the block runs."""
    recording, ended = Recording(), threading.Event()
    recorder = threading.Thread(
        target=_record, args=(kube, name, namespace, recording, ended), daemon=True
    )
    recorder.start()
    try:
        yield recording
    finally:
        ended.set()
        recorder.join(timeout=60)


def _record(
    kube: Kube, name: str, namespace: str, recording: Recording, ended: threading.Event
) -> None:
    started = time.monotonic()
    last: dict[str, Condition] | None = None
    over = False
    while not over:
        # One look after the end: the last state belongs to the recording.
        over = ended.wait(LOOK_SECONDS)
        try:
            found = kube.get(MODEL, name, namespace)
            if found is None or conditions(found) == last:
                continue
            last = conditions(found)
            recording.phases.append(
                Phase(
                    seconds=time.monotonic() - started,
                    conditions=last,
                    narrow=kube.kubectl("get", "im", name, "-n", namespace),
                    wide=kube.kubectl("get", "im", name, "-n", namespace, "-o", "wide"),
                    described=kube.kubectl("describe", "im", name, "-n", namespace),
                )
            )
        except (*AWAY, KubectlError):
            continue
