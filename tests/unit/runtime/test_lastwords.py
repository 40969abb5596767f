"""Which line of a log explains a death. Lines as vLLM prints them, shortened."""

import time

import pytest

from kindling_runtime import lastwords

CASES: dict[str, tuple[list[str], str | None]] = {
    "nothing was said": ([], None),
    "nothing of use was said": (["INFO 11-29 loading", "", "0 errors"], None),
    "the error without its prefix": (
        ["(APIServer pid=7) ERROR 11-29 22:41:02 [core.py:1100] ValueError: To serve at least one"],
        "ValueError: To serve at least one",
    ),
    "the cause, not the echo of the parent": (
        [
            "(EngineCore pid=9) ERROR 11-29 [core.py:1] OSError: [Errno 28] No space left",
            "(APIServer pid=7) RuntimeError: Engine core initialization failed. "
            "See root cause above. Failed core proc(s): {}",
        ],
        "OSError: [Errno 28] No space left",
    ),
    "a core that said nothing": (
        [
            "(APIServer pid=11) WARNING 11-30 12:16:30 [core_client.py:817] [shutdown] MPClient:"
            " engine core exited unexpectedly; starting cleanup",
            "(APIServer pid=11) ERROR 11-30 12:16:30 [async_llm.py:906] vllm.v1.engine.exceptions."
            "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for more.",
        ],
        "its engine core ended without a word, as a killed process does (EngineDeadError)",
    ),
    "a worker that said nothing": (
        [
            "(EngineCore pid=23) ERROR 11-30 21:59:03 [multiproc_executor.py:315] Worker proc"
            " VllmWorker-0 died unexpectedly (exit code: None), shutting down executor.",
            "(EngineCore pid=23) ERROR 11-30 21:59:03 [core.py:1512] RuntimeError: cancelled",
            "(APIServer pid=11) ERROR 11-30 21:59:03 [async_llm.py:906] vllm.v1.engine.exceptions."
            "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for more.",
        ],
        "its worker VllmWorker-0 ended without a word, as a killed process does",
    ),
    "a worker that said why": (
        [
            "(Worker pid=31) ERROR 11-30 21:59:03 [multi.py:1] torch.OutOfMemoryError: CUDA out of",
            "(EngineCore pid=23) ERROR 11-30 21:59:03 [multiproc_executor.py:315] Worker proc"
            " VllmWorker-0 died unexpectedly (exit code: 1), shutting down executor.",
            "(EngineCore pid=23) ERROR 11-30 21:59:03 [core.py:1512] RuntimeError: cancelled",
        ],
        "torch.OutOfMemoryError: CUDA out of",
    ),
    "the echo when there is nothing else": (
        ["RuntimeError: Engine core initialization failed. See root cause above."],
        "RuntimeError: Engine core initialization failed. See root cause above",
    ),
    "not an error that a warning speaks of": (
        [
            "(APIServer pid=3) WARNING 11-29 23:13:11 [system_utils.py:255] This can cause fd "
            "limit errors like `OSError: [Errno 24] Too many open files`.",
            "(APIServer pid=3) ERROR 11-29 23:13:49 [async_llm.py:906] vllm.v1.engine.exceptions."
            "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for more.",
        ],
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
        "See stack trace (above) for more",
    ),
    "the detail of a refused configuration, not its count": (
        [
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig",
            "  Value error, Total number of attention heads (8) must be divisible by tensor "
            "parallel size (3). [type=value_error, input_value=ArgsKwargs((), {}), input_type=A]",
            "    For further information visit https://errors.pydantic.dev/2.14/v/value_error",
        ],
        "Value error, Total number of attention heads (8) must be divisible by tensor "
        "parallel size (3)",
    ),
    "the last of several": (["KeyError: 'a'", "ValueError: b", "bye"], "ValueError: b"),
    "a class with its module": (
        ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"],
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    ),
    "a refused flag": (
        ["usage: vllm serve [model_tag]", "vllm serve: error: unrecognized arguments: --foo"],
        "error: unrecognized arguments: --foo",
    ),
    "a fatal signal": (
        ["Fatal Python error: Illegal instruction", "", "Thread 0x1 (most recent call first):"],
        "Fatal Python error: Illegal instruction",
    ),
}


@pytest.mark.parametrize(("lines", "picked"), CASES.values(), ids=CASES.keys())
def test_pick(lines: list[str], picked: str | None) -> None:
    assert lastwords.pick(lines) == picked


def test_a_long_complaint_is_cut() -> None:
    picked = lastwords.pick(["ValueError: " + "x" * 10_000])

    assert picked is not None
    assert len(picked) == 500


@pytest.mark.parametrize(
    "line", ["a." * 8192, "Error:" * 2700, "x Error:" + " " * 16_000, "1" * 16_384]
)
def test_no_line_takes_long(line: str) -> None:
    begun = time.process_time()
    lastwords.pick([line] * 400)

    assert time.process_time() - begun < 2


def test_what_moves_a_terminal_is_left_out() -> None:
    assert lastwords.pick(["ValueError: a\x1b]0;b\x07 \x1b[31mc"]) == "ValueError: a]0;b [31mc"
