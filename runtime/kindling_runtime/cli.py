"""The command `kindling-runtime`."""

import argparse
import importlib.metadata
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from kindling_runtime import clock, contract, membership, plainlog, termination
from kindling_runtime.contract import ExitCode, Reason
from kindling_runtime.weights import uses
from kindling_runtime.weights.leasing import STALE_SECONDS
from kindling_runtime.weights.limit import limited

_log = logging.getLogger("kindling_runtime")


def main() -> int:
    """Run the command line; returns the exit status."""
    # As process 1 a signal without a handler is lost, so these wait until there is one.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    arguments = _parser().parse_args()
    if arguments.command == "version":
        print(f"kindling-runtime {_version()} (contract version {contract.CONTRACT_VERSION})")
        return ExitCode.CLEAN
    _log_plainly()
    return _obey(arguments)


def _obey(arguments: argparse.Namespace) -> ExitCode:
    try:
        plan = contract.decode(arguments.plan.read_bytes())
        serves = arguments.command == "serve"
        member = membership.member_of(plan, os.environ) if serves else None
        plan = plan if serves else limited(plan, os.environ)
    except OSError as error:
        problem = (
            f"the launch plan {arguments.plan} cannot be read: {error.strerror}; "
            "mount the ConfigMap of the revision there"
        )
        return _refuse(arguments.termination_log, problem)
    except contract.ContractError as error:
        return _refuse(arguments.termination_log, str(error))
    if not serves:
        return _fetch(plan, arguments)
    if plan.weights.use is not None:
        uses.keep(Path(plan.weights.use), uses.keys_of(plan.weights.fetch))
    # Late, so that a plan that is refused is refused at once.
    from kindling_runtime import process

    return process.supervise(
        plan,
        version=_version(),
        started=clock.process_started(),
        shared_memory=arguments.shared_memory,
        termination_log=arguments.termination_log,
        member=member,
    )


def _fetch(plan: contract.LaunchPlan, arguments: argparse.Namespace) -> ExitCode:
    from kindling_runtime.weights import process

    code = process.fetch(
        plan,
        version=_version(),
        termination_log=arguments.termination_log,
        lease_seconds=arguments.lease_seconds,
        thoroughly=arguments.verify,
    )
    logging.shutdown()
    # At once: a thread that waits for a dead volume would hold an ordinary exit up for ever.
    os._exit(code)


def _refuse(termination_log: Path, problem: str) -> ExitCode:
    _log.error(problem)
    termination.write(termination_log, Reason.CONTRACT_REFUSED, problem)
    return ExitCode.CONTRACT


def _version() -> str:
    return importlib.metadata.version("kindling")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(ExitCode.CONTRACT, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kindling-runtime",
        description="Process 1 of a serving pod: starts the engine of a launch plan, proves that "
        "it generates tokens, and takes it out of service without cutting a stream.",
        epilog="Exit status: 0 clean; 64 the plan or the command line cannot be obeyed; "
        "70 the engine failed; 78 the pod cannot run the plan.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="run the engine of a launch plan")
    fetch = commands.add_parser("fetch", help="bring the weights of a launch plan, then end")
    _add_fetch(fetch)
    for command in (serve, fetch):
        command.add_argument(
            "--plan", type=Path, required=True, metavar="FILE", help="the launch plan"
        )
        command.add_argument(
            "--termination-log",
            type=Path,
            default=Path(contract.TERMINATION_LOG_PATH),
            metavar="FILE",
            help="existing file for the last message (default: %(default)s)",
        )
    serve.add_argument(
        "--shared-memory",
        type=Path,
        default=Path(contract.SHARED_MEMORY_PATH),
        metavar="FOLDER",
        help="where engines leave shared memory behind (default: %(default)s)",
    )
    commands.add_parser("version", help="print the version and that of the contract")
    return parser


def _add_fetch(fetch: argparse.ArgumentParser) -> None:
    fetch.add_argument(
        "--lease-seconds",
        type=float,
        default=STALE_SECONDS,
        metavar="N",
        help="a download whose lease does not move for so long is taken over "
        "(default: %(default).0f)",
    )
    fetch.add_argument(
        "--verify", action="store_true", help="read every file of the cache and compare its hash"
    )


def _log_plainly() -> None:
    # Plain lines, not JSON: the engine's own log, which is most of the stream, is plain.
    handler = plainlog.Aside()
    formatter = logging.Formatter(
        "%(asctime)s kindling-runtime %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%SZ"
    )
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
