"""What must hold before the engine is started, as an ordered list of small checks.

Each check returns None or one sentence: what is wrong, with the value, and the fix. The first one
that fails decides. They read the file system, so they belong in a thread with a deadline.
"""

import logging
import os
import shutil
import socket
import threading
import time
from pathlib import Path

from kindling_runtime import foreign, modelfiles, podfit
from kindling_runtime.contract import BIND_HOST, Checked, LaunchPlan, Reason
from kindling_runtime.podfit import Check
from kindling_runtime.state import PreflightFailed

_log = logging.getLogger(__name__)


def weights_folder_exists(plan: LaunchPlan) -> str | None:
    """The weights are a folder in the container."""
    folder = Path(plan.weights.path)
    if folder.is_dir():
        return None
    found = "is a file" if folder.exists() else "does not exist"
    return (
        f"the weights folder {folder} {found}; "
        f"make {plan.weights.uri} name a folder that holds the model"
    )


def weights_folder_listable(plan: LaunchPlan) -> str | None:
    """The container's user may look into the weights folder."""
    if os.access(plan.weights.path, os.R_OK | os.X_OK):
        return None
    return (
        f"the weights folder {plan.weights.path} cannot be read by user {os.getuid()}; "
        f"make it readable for others (chmod -R a+rX) in {plan.weights.uri}"
    )


def required_files_present(plan: LaunchPlan) -> str | None:
    """Each planned file is there."""
    folder = Path(plan.weights.path)
    missing = [name for name in plan.requires.files if not (folder / name).is_file()]
    if not missing:
        return None
    return (
        f"the weights folder {folder} has no {missing[0]}; "
        f"make {plan.weights.uri} name the folder that holds the model's files"
    )


def weights_files_readable(plan: LaunchPlan) -> str | None:
    """The container's user may read every file: save_pretrained writes weights as 0600."""
    files = (entry for entry in sorted(Path(plan.weights.path).iterdir()) if entry.is_file())
    unreadable = [file.name for file in files if not os.access(file, os.R_OK)]
    if not unreadable:
        return None
    return (
        f"{unreadable[0]} in the weights folder {plan.weights.path} cannot be read by user "
        f"{os.getuid()}; make it readable for others (chmod a+r) in {plan.weights.uri}"
    )


def engine_command_found(plan: LaunchPlan) -> str | None:
    """The image holds the planned engine."""
    if shutil.which(plan.engine.argv[0], path=plan.engine.env.get("PATH")):
        return None
    return command_unusable(plan, "is not in this image")


def command_unusable(plan: LaunchPlan, why: str) -> str:
    """The sentence for an engine that cannot be started at all."""
    return (
        f"the engine's command {plan.engine.argv[0]} {why}; "
        "use the runtime image of the operator's own release"
    )


def engine_port_free(plan: LaunchPlan) -> str | None:
    """Nothing else in the pod listens where the engine will."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections of an earlier engine may linger; the engine ignores them as well.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((BIND_HOST, plan.engine.port))
        except OSError as error:
            return port_taken(plan.engine.port, error, owner="engine")
    return None


def port_taken(port: int, error: OSError, *, owner: str) -> str:
    """The sentence for a port that cannot be bound."""
    return (
        f"port {port} of the {owner} cannot be bound ({os.strerror(error.errno or 0)}); "
        "free it in the pod, or plan another"
    )


WEIGHTS_CHECKS: tuple[Check, ...] = (
    weights_folder_exists,
    weights_folder_listable,
    required_files_present,
    weights_files_readable,
    modelfiles.json_files_parse,
    modelfiles.some_tensors_are_there,
    modelfiles.shards_of_the_index_are_there,
    modelfiles.numbered_files_are_all_there,
    modelfiles.tensor_files_are_whole,
    modelfiles.tensors_of_the_index_are_there,
    modelfiles.torch_files_are_whole,
    modelfiles.gguf_files_are_whole,
    modelfiles.files_are_as_published,
)
POD_CHECKS: tuple[Check, ...] = (engine_command_found, engine_port_free, *podfit.POD_CHECKS)
CHAPTERS: tuple[tuple[Reason, tuple[Check, ...]], ...] = (
    (Reason.WEIGHTS_INCOMPLETE, WEIGHTS_CHECKS),
    (Reason.PREFLIGHT_FAILED, POD_CHECKS),
    (Reason.PREFLIGHT_FAILED, podfit.GPU_CHECKS),
)
"""Chapters are judged at the same time, the checks of one in order up to the first that fails."""


class Preflight:
    """The checks of one start; `results` grows while they are made."""

    def __init__(
        self, plan: LaunchPlan, chapters: tuple[tuple[Reason, tuple[Check, ...]], ...] = CHAPTERS
    ) -> None:
        self._plan = plan
        self._chapters = chapters
        self._results: list[list[Checked]] = [[] for _ in chapters]

    @property
    def results(self) -> tuple[Checked, ...]:
        """What has been checked so far, by chapter."""
        return tuple(each for chapter in self._results for each in tuple(chapter))

    @property
    def summary(self) -> str:
        """Every check by name: what failed, what passed, and what was not made after it."""
        made = {each.check: "failed" if each.problem else "ok" for each in self.results}
        names = [check.__name__ for _, checks in self._chapters for check in checks]
        told = {
            how: ", ".join(name for name in names if made.get(name, "not made") == how)
            for how in ("failed", "ok", "not made")
        }
        return "; ".join(f"{how}: {which}" for how, which in told.items() if which)

    def first_problem(self) -> PreflightFailed | None:
        """Make all checks; the sentence of the first that fails of each chapter, with the reason of
        the first of them, or None."""
        threads = [
            threading.Thread(target=self._judge, args=(number,), daemon=True)
            for number in range(len(self._chapters))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        failed = [
            (each.problem, reason)
            for (reason, _), results in zip(self._chapters, self._results, strict=True)
            for each in results
            if each.problem
        ]
        if not failed:
            return None
        return PreflightFailed("; besides, ".join(text for text, _ in failed), failed[0][1])

    def _judge(self, number: int) -> None:
        reason, checks = self._chapters[number]
        for check in checks:
            begun = time.monotonic()
            problem = foreign.printable(_said(check, self._plan, reason) or "")
            took = round(time.monotonic() - begun, 3)
            name = check.__name__
            self._results[number].append(Checked(check=name, problem=problem, seconds=took))
            if problem:
                return


def _said(check: Check, plan: LaunchPlan, reason: Reason) -> str | None:
    """What a check says.

    One that the file system itself interrupts (a stale mount, an I/O error) fails with its words,
    and one that cannot make anything of the model's files fails. One with a fault of its own beside
    them fails nothing: the engine will tell.
    """
    try:
        return check(plan)
    except OSError as error:
        place = foreign.quoted(str(error.filename or plan.weights.path))
        return f"{place} cannot be read ({error.strerror}); see the volume of {plan.weights.uri}"
    except Exception as error:
        _log.exception("the check %s failed by itself", check.__name__)
        if reason is not Reason.WEIGHTS_INCOMPLETE:
            return None
        what = foreign.quoted(f"{type(error).__name__}: {error}")
        return (
            f"{check.__name__} cannot make sense of the files in {plan.weights.path} ({what}); copy"
            f" them again to {plan.weights.uri}"
        )
