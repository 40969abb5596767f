"""``kindling plan``: the decision for each model of a file, for people or for machines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import yaml

from kindling_operator.cli_decision import decision_text, obstacle, places_of
from kindling_operator.cli_failure import REFUSED, usage
from kindling_operator.cli_files import released, remarks, snapshot_of
from kindling_operator.cli_summary import summary_lines
from kindling_operator.cli_terminal import Terminal
from kindling_operator.cli_what_if import considered
from kindling_operator.model.names import Key
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.plan import Decision, EnginePlan
from kindling_operator.model.snapshot import Snapshot
from kindling_operator.model.status import MAX_REJECTED
from kindling_operator.plan import plan
from kindling_operator.plan.argument import explained
from kindling_operator.plan.course import lacks_room
from kindling_operator.plan.placement import Placements, placements
from kindling_operator.plan.revision import new_revision
from kindling_operator.render import render
from kindling_operator.report.status import plan_status

FORMATS = ("table", "json", "yaml")


def plan_command(options: argparse.Namespace) -> int:
    """Print every decision; 1 if any model would not get its pods now."""
    snapshot, keys = _offline(options) if options.nodes else _live(options)
    placed = placements(snapshot)
    decisions = [_told(plan(snapshot, key, placed), placed) for key in keys]
    if options.output == "table":
        print(_table(snapshot, placed, decisions, why=options.why))
    else:
        print({"json": _json, "yaml": _yaml}[options.output](snapshot, placed, decisions))
    return REFUSED if any(obstacle(decision) for decision in decisions) else 0


def _told(decision: Decision, placed: Placements) -> Decision:
    """The decision with what replicas lack that no pod stands for yet."""
    if decision.key not in placed:
        return decision
    lacks = lacks_room(decision, placed.of(decision.key))
    return decision if lacks is None else replace(decision, verdicts=(*decision.verdicts, lacks))


def _offline(options: argparse.Namespace) -> tuple[Snapshot, Sequence[Key]]:
    if options.kubeconfig:
        raise usage("--kubeconfig is for a cluster and --nodes for files: give one of them")
    snapshot = snapshot_of(
        options.filename,
        nodes_file=options.nodes,
        pods_file=options.pods,
        namespace=options.namespace or "default",
        environment=released(options),
    )
    for remark in remarks(snapshot, options.nodes):
        print(f"kindling: {remark}", file=sys.stderr)
    return snapshot, sorted(snapshot.models)


def _live(options: argparse.Namespace) -> tuple[Snapshot, Sequence[Key]]:
    if options.pods:
        raise usage("--pods is for files and --context for a cluster: give one of them")
    # The client takes a second to import.
    from kindling_operator.cli_plan_live import live_snapshot

    return live_snapshot(options)


def _table(
    snapshot: Snapshot, placed: Placements, decisions: Sequence[Decision], *, why: bool
) -> str:
    terminal = Terminal.of()
    texts = [_text(snapshot, placed, decision, terminal, why=why) for decision in decisions]
    if len(decisions) > 1:
        texts.append("\n".join(summary_lines(snapshot, decisions, terminal)))
    return "\n\n".join(texts)


def _text(
    snapshot: Snapshot, placed: Placements, decision: Decision, terminal: Terminal, *, why: bool
) -> str:
    key = decision.key
    kept = placed.of(key).nodes if key in placed else ()
    return decision_text(
        decision,
        terminal,
        nodes=places_of(snapshot.pods_of(key), kept),
        later=_later(placed, decision),
        considered=considered(snapshot, key) if decision.refused is not None else (),
        why=why,
    )


def _later(placed: Placements, decision: Decision) -> EnginePlan | None:
    """What a model of which nothing runs would run once there is room."""
    waits = decision.refused is None and decision.current is None and decision.key in placed
    return placed.of(decision.key).choice.plan if waits else None


def _json(snapshot: Snapshot, placed: Placements, decisions: Sequence[Decision]) -> str:
    found = [_machine(snapshot, placed, decision) for decision in decisions]
    return json.dumps(found[0] if len(found) == 1 else found, indent=2)


def _machine(snapshot: Snapshot, placed: Placements, decision: Decision) -> dict[str, Any]:
    said = obstacle(decision) or decision.verdicts[0]
    shown = _with_later(snapshot, placed, decision)
    status = plan_status(shown)
    return {
        "namespace": decision.key.namespace,
        "name": decision.key.name,
        "accepted": decision.refused is None,
        "reason": said.reason.value,
        "message": said.message,
        "plan": msgspec.to_builtins(status) if status is not None else None,
        **({"arguments": explained(shown.current.plan)} if shown.current is not None else {}),
        **_options(snapshot, decision),
    }


def _with_later(snapshot: Snapshot, placed: Placements, decision: Decision) -> Decision:
    """The decision with the plan that a waiting model would get."""
    later, model = _later(placed, decision), snapshot.models[decision.key]
    if later is None or not isinstance(model, ParsedModel):
        return decision
    return replace(decision, current=new_revision(model, later))


def _options(snapshot: Snapshot, decision: Decision) -> dict[str, Any]:
    """The options that were considered for a spec that is refused; else `plan` has them."""
    if decision.refused is None:
        return {}
    options = considered(snapshot, decision.key)
    shown = msgspec.to_builtins(options[:MAX_REJECTED])
    return {"rejected": shown, "rejectedTotal": len(options)}


def _yaml(snapshot: Snapshot, _placed: Placements, decisions: Sequence[Decision]) -> str:
    manifests = [
        _printable(manifest) for decision in decisions for manifest in render(snapshot, decision)
    ]
    return yaml.safe_dump_all(manifests, sort_keys=False).rstrip("\n")


def _printable(manifest: dict[str, Any]) -> dict[str, Any]:
    """Without the owner, which has no uid before the API server has given it one."""
    metadata = {k: v for k, v in manifest["metadata"].items() if k != "ownerReferences"}
    return {**manifest, "metadata": metadata}
