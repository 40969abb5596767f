"""What an InferenceModel is waiting for, told as it changes: from its status and its events."""

from __future__ import annotations

from tests.support.kube import AWAY, MODEL, Kube, Object, conditions
from tests.support.waiting import until

TOLD = ("Accepted", "Scheduled", "Progressing", "Available")
"""Ready says nothing else: it repeats the most useful of these."""


class RefusedError(AssertionError):
    """The object cannot become ready as it is; the text is the operator's own sentence."""


class Progress:
    """Follows one InferenceModel."""

    def __init__(self, kube: Kube, name: str, namespace: str) -> None:
        self._kube = kube
        self._name = name
        self._namespace = namespace
        self._told: dict[str, str] = {}

    def until_ready(self, *, seconds: float) -> Object:
        """Tell each change until Ready is true; raises RefusedError when it is not accepted."""
        return until(
            f"InferenceModel {self._namespace}/{self._name} to be Ready",
            self._look,
            seconds=seconds,
            every=0.5,
            say=self._kube.say,
            show=lambda: self._told.get("Progressing", "no status yet").partition(":")[0],
            forgive=AWAY,
        )

    def _look(self) -> Object | None:
        found = self._kube.have(MODEL, self._name, self._namespace)
        status = found.get("status", {})
        if status.get("observedGeneration") != found["metadata"]["generation"]:
            return None
        seen = conditions(found)
        for type_ in TOLD:
            if type_ in seen:
                self._tell(type_, str(seen[type_]))
        if "Accepted" in seen and seen["Accepted"].status == "False":
            raise RefusedError(str(seen["Accepted"]))
        return found if "Ready" in seen and seen["Ready"].status == "True" else None

    def _tell(self, type_: str, text: str) -> None:
        if self._told.get(type_) != text:
            self._told[type_] = text
            self._kube.say(f"  {text}")
