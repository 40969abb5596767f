"""What a person sees of a failure with kubectl, and how soon after it happened."""

import re
import time
from dataclasses import dataclass
from typing import Final

from tests.support.faultpage import Fault, Kind, Under
from tests.support.kube import AWAY, MODEL, Kube, conditions
from tests.support.waiting import until

TOLD_SECONDS: Final = 30
"""From the fault to its message, the kubelet's and the operator's parts included."""

_ASIDE: Final = re.compile(r"\([^()]*\)|`[^`]*`")
_POD: Final = re.compile(r"[a-z][a-z-]*-[0-9a-f]{10}-[a-z0-9-]+")
_SECOND_SENTENCE: Final = re.compile(r"[.!?]\s+[A-Z]")


@dataclass(frozen=True, slots=True)
class Shown:
    """The column REASON of `kubectl get im -o wide`, the sentence in `kubectl describe`, and the
    seconds from the fault until both were there."""

    reason: str
    message: str
    seconds: float

    def into(self, fault: Fault, what: str, *, bound: float = TOLD_SECONDS) -> None:
        """Note it as the row of a fault, with its bound, and whatever names the moment left out."""
        promise = "one sentence in `kubectl get im -o wide` and `describe`"
        fault.row(Kind.MESSAGES, what, promise, under=Under.POD)
        fault.within(bound, "told", took=self.seconds)
        fault.note(f"{self.reason}: {_POD.sub('POD', self.message)}")


def shown(
    kube: Kube,
    name: str,
    namespace: str,
    *,
    reason: str,
    words: str = "",
    began: float | None = None,
    seconds: float = TOLD_SECONDS,
) -> Shown:
    """Wait until kubectl shows this reason and a message with these words, and say it.

    `began` is when the fault happened (monotonic), now if nothing else is said. Fails after
    `seconds` from then, and if the message is no single sentence.
    """
    began = time.monotonic() if began is None else began

    def look() -> Shown | None:
        ready = conditions(kube.get(MODEL, name, namespace) or {}).get("Ready")
        if ready is None or ready.reason != reason or words not in ready.message:
            return None
        took = time.monotonic() - began
        described = kube.kubectl("describe", "im", name, "-n", namespace)
        row = columns(kube.kubectl("get", "im", name, "-n", namespace, "-o", "wide"))
        if row["REASON"] != reason or ready.message not in described:
            return None
        return Shown(reason, ready.message, took)

    seen = until(
        f"kubectl to show {namespace}/{name} with {reason} and {words!r}",
        look,
        seconds=seconds - (time.monotonic() - began),
        say=kube.say,
        show=lambda: kube.told(name, namespace),
        every=0.3,
        forgive=AWAY,
    )
    kube.say(f"  told after {seen.seconds:.1f} s: {seen.reason}: {seen.message}")
    assert is_one_sentence(seen.message), seen.message
    return seen


def columns(table: str) -> dict[str, str]:
    """The one row of what `kubectl get` printed, by the column's title."""
    title, row = table.splitlines()
    starts = [match.start() for match in re.finditer(r"\S+(?: \S+)*", title)]
    ends = [*starts[1:], None]
    return {
        title[start:end].strip(): row[start:end].strip()
        for start, end in zip(starts, ends, strict=True)
    }


def is_one_sentence(text: str) -> bool:
    """Whether a text is one sentence on one line; what it quotes may be anything."""
    own = text
    while own != (own := _ASIDE.sub("", own)):
        pass
    return own.endswith(".") and "\n" not in text and not _SECOND_SENTENCE.search(own)
