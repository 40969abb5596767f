"""``kindling``: what people run. Exit codes: 0 done, 1 refused with a reason, 2 wrong usage."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kindling_operator import __version__
from kindling_operator.cli_catalog import add_catalog
from kindling_operator.cli_failure import Failure
from kindling_operator.cli_plan import FORMATS, plan_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = arguments_of(arguments)
    try:
        code: int = options.run(options)
    except Failure as failure:
        print(f"kindling: {failure}", file=sys.stderr)
        return failure.code
    except BrokenPipeError:
        # The reader (a pager, head) has seen enough.
        sys.stderr.close()
        return 0
    return code


def arguments_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What was typed (None: on this process's command line); ends the process if it is no use."""
    return _parser().parse_args(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kindling", description="Plan and manage InferenceModels.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"kindling {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_plan(commands)
    add_catalog(commands)
    _add_explain(commands)
    _add_replan(commands)
    _add_doctor(commands)
    return parser


def _add_plan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    plan = commands.add_parser(
        "plan",
        help="what would run where, and why: from files, or in a cluster that is only read",
        description="Decide for the models of a file, on the nodes of a file or of a cluster."
        " Nothing is written anywhere.",
        allow_abbrev=False,
    )
    plan.set_defaults(run=plan_command)
    plan.add_argument("-f", "--filename", required=True, help="InferenceModels, YAML or JSON")
    source = plan.add_mutually_exclusive_group(required=True)
    source.add_argument("--nodes", help="output of kubectl get nodes -o yaml")
    source.add_argument(
        "--context", nargs="?", const="", help="a cluster, as it is now; alone: the current context"
    )
    plan.add_argument("--kubeconfig", help="default: KUBECONFIG, then ~/.kube/config")
    plan.add_argument("--pods", help="output of kubectl get pods -A -o yaml: who holds GPUs")
    plan.add_argument("-n", "--namespace", help="of models that name none; default: the context's")
    plan.add_argument("-o", "--output", choices=FORMATS, default="table", help="default: table")
    plan.add_argument("--why", action="store_true", help="tell why each engine argument is given")
    plan.add_argument("--runtimes", help="YAML list of what further runtime images can do")
    plan.add_argument("--cuda-image", help="runtime image for GPUs; default: the operator's")
    plan.add_argument("--cpu-image", help="runtime image for CPU; default: the operator's")


def _add_replan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    replan = commands.add_parser(
        "replan",
        help="take the better plan that status tells of",
        description="Ask for a new plan of a model. A rollout replaces its replicas, also where the"
        " plan stays as it is: the pods become what this operator makes of it.",
        allow_abbrev=False,
    )
    replan.set_defaults(run=_replan)
    replan.add_argument("model", metavar="im/NAME", help="the InferenceModel")
    _add_cluster(replan)


def _add_explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    explain = commands.add_parser(
        "explain",
        help="what a model waits for, since when, and what to do",
        description="Tell the status of a model as a story: what it waits for, the decision, the"
        " rollout, its pods and the last events. Only reads.",
        allow_abbrev=False,
    )
    explain.set_defaults(run=_explain)
    explain.add_argument("model", metavar="im/NAME", help="the InferenceModel")
    _add_cluster(explain)


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="whether a cluster has what models need, and the fix for what it lacks",
        description="Check a cluster: GPU labels, drivers, APIs, versions, the operator, your own"
        " rights. Only reads.",
        allow_abbrev=False,
    )
    doctor.set_defaults(run=_doctor)
    _add_connection(doctor)


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    """The options of a command that talks to a cluster about one namespace."""
    parser.add_argument("-n", "--namespace", help="default: the context's")
    _add_connection(parser)


def _add_connection(parser: argparse.ArgumentParser) -> None:
    """The options of every command that talks to a cluster."""
    parser.add_argument("--context", help="default: the current one")
    parser.add_argument("--kubeconfig", help="default: KUBECONFIG, then ~/.kube/config")


# The client takes a second to import: only the commands that talk to a cluster wait for it.


def _replan(options: argparse.Namespace) -> int:
    from kindling_operator.cli_replan import replan_command

    return replan_command(options)


def _explain(options: argparse.Namespace) -> int:
    from kindling_operator.cli_explain import explain_command

    return explain_command(options)


def _doctor(options: argparse.Namespace) -> int:
    from kindling_operator.cli_doctor import doctor_command

    return doctor_command(options)
