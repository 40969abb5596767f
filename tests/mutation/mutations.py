"""What catches each trap of vLLM, and how to take it away.

A `Mutation` removes one rule, flag, variable or fact, and nothing else; the tests of its trap
(tests/unit/plan/test_traps.py) must fail without it. docs/traps.md tells of the same things.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest
from msgspec import structs

from kindling_operator import catalog
from kindling_operator.catalog import runtimes
from kindling_operator.model.architecture import CatalogEntry, Device
from kindling_operator.model.layout import Layout
from kindling_operator.model.runtime import RuntimeFacts
from kindling_operator.plan import checks, command, layouts, memory, rules
from kindling_operator.plan.argument import Argument, name_of
from kindling_operator.plan.capabilities import runtime_for
from kindling_operator.plan.forbidden import FORBIDDEN
from kindling_operator.plan.subject import Subject
from kindling_operator.plan.unsupported import UNSUPPORTED

PLAN: Final = "kindling_operator.plan"
INSTALLATION: Final = "kindling_operator.installation"

Patch = pytest.MonkeyPatch
Take = Callable[[Patch], None]


@dataclass(frozen=True)
class Mutation:
    """One thing that catches a trap; `name` is what docs/traps.md calls it."""

    trap: int
    name: str
    take: Take


def rule(trap: int, name: str) -> Mutation:
    """A rule of the options, without which they are not refused."""

    def take(patch: Patch) -> None:
        rest = tuple(each for each in rules.OPTION_RULES if each.__name__ != name)
        assert len(rest) + 1 == len(rules.OPTION_RULES), name
        patch.setattr(rules, "OPTION_RULES", rest)

    return Mutation(trap, name, take)


def check(trap: int, name: str) -> Mutation:
    """A check of the spec."""

    def take(patch: Patch) -> None:
        rest = tuple(each for each in checks.CHECKS if each.__name__ != name)
        assert len(rest) + 1 == len(checks.CHECKS), name
        patch.setattr(checks, "CHECKS", rest)

    return Mutation(trap, name, take)


def argument(trap: int, option: str) -> Mutation:
    """The ban of an argument: for all models, for one, and where the plan sets it itself."""

    def take(patch: Patch) -> None:
        patch.setattr(f"{PLAN}.checks_arguments.FORBIDDEN", _without(FORBIDDEN, option))
        patch.setattr(f"{PLAN}.choice.argument_is_planned", lambda *_: None)
        entries = {name: _allowing(entry, option) for name, entry in catalog.load_all().items()}
        patch.setattr(f"{INSTALLATION}.catalog.load_all", lambda: entries)

    return Mutation(trap, f"{option} is refused", take)


def flag(trap: int, option: str) -> Mutation:
    """A rendered argument."""

    def take(patch: Patch) -> None:
        render = command.engine_arguments

        def without(*given: Any, **more: Any) -> tuple[Argument, ...]:
            return tuple(a for a in render(*given, **more) if name_of(a.text) != option)

        patch.setattr(f"{PLAN}.engine.engine_arguments", without)

    return Mutation(trap, option, take)


def variable(trap: int, name: str) -> Mutation:
    """A rendered variable."""

    def take(patch: Patch) -> None:
        render = command.engine_env

        def without(*given: Any, **more: Any) -> dict[str, str]:
            return {k: v for k, v in render(*given, **more).items() if k != name}

        patch.setattr(f"{PLAN}.engine.engine_env", without)

    return Mutation(trap, name, take)


def field(trap: int, path: str) -> Mutation:
    """A field of the spec that is not supported yet."""

    def take(patch: Patch) -> None:
        rest = tuple(each for each in UNSUPPORTED if each.field != path)
        assert len(rest) + 1 == len(UNSUPPORTED), path
        patch.setattr(f"{PLAN}.checks.UNSUPPORTED", rest)

    return Mutation(trap, f"{path} is refused", take)


def fact(trap: int, name: str, change: Callable[[RuntimeFacts], RuntimeFacts]) -> Mutation:
    """Something that the release's CUDA image is known for."""

    def take(patch: Patch) -> None:
        load = runtimes.load_all

        def changed(*given: Any) -> dict[str, RuntimeFacts]:
            return {key: change(each) for key, each in load(*given).items()}

        patch.setattr(f"{INSTALLATION}.runtimes.load_all", changed)

    return Mutation(trap, name, take)


def part(trap: int, name: str, value: Any) -> Mutation:
    """A part of the planner, replaced by what somebody would write who knows no trap."""
    return Mutation(trap, name, lambda patch: patch.setattr(f"{PLAN}.{name}", value))


def _without(table: Mapping[str, str], key: str) -> dict[str, str]:
    return {each: value for each, value in table.items() if each != key}


def _allowing(entry: CatalogEntry, option: str) -> CatalogEntry:
    rest = tuple(each for each in entry.forbidden_arguments if each.argument != option)
    return structs.replace(entry, forbidden_arguments=rest)


def _without_broken(facts: RuntimeFacts) -> RuntimeFacts:
    models = tuple(
        structs.replace(
            model,
            capabilities=tuple(
                each
                for each in model.capabilities
                if each.feature is not None or each.status.value != "Broken"
            ),
        )
        for model in facts.models
    )
    return structs.replace(facts, models=models)


def _without_kernels(facts: RuntimeFacts) -> RuntimeFacts:
    models = tuple(structs.replace(model, kernels=()) for model in facts.models)
    return structs.replace(facts, models=models)


def _without_needs(facts: RuntimeFacts) -> RuntimeFacts:
    models = tuple(structs.replace(model, needs=()) for model in facts.models)
    return structs.replace(facts, models=models)


def _anywhere(layout: Layout, extent: layouts.Extent) -> bool:
    return extent.nodes_with(layout.gpus_per_node) >= layout.nodes


def _never_split(subject: Subject, device: Device) -> RuntimeFacts:
    return structs.replace(runtime_for(subject, device), split_kv=False)


def _only_queues(items: Any) -> int:
    return memory.total(item for item in items if item.item == memory.SHARED_MEMORY)


MUTATIONS: Final = (
    argument(1, "--block-size"),
    rule(1, "convolutions_would_be_stretched"),
    rule(2, "tensor_is_no_size_of_the_model"),
    rule(3, "combination_is_broken"),
    fact(3, "capabilities of catalog/runtimes/cuda.yaml", _without_broken),
    argument(4, "--kv-cache-dtype"),
    argument(5, "--attention-backend"),
    flag(5, "--attention-config"),
    fact(5, "kernels of catalog/runtimes/cuda.yaml", _without_kernels),
    rule(6, "image_lacks_a_package"),
    variable(6, "VLLM_BATCH_INVARIANT"),
    argument(7, "--quantization"),
    flag(7, "--hf-config-path"),
    flag(7, "--tokenizer"),
    rule(7, "image_lacks_a_package"),
    part(7, "mounts.is_local", lambda _: True),
    part(7, "mounts.config_source", lambda *_: ""),
    argument(8, "--moe-backend"),
    argument(8, "--kernel-config"),
    rule(9, "nothing_drafts"),
    rule(9, "draft_is_no_multiple_of_the_depths"),
    rule(9, "draft_is_longer_than_a_block"),
    rule(9, "stages_break_drafting"),
    argument(10, "--all2all-backend"),
    flag(10, "--all2all-backend"),
    argument(11, "--decode-context-parallel-size"),
    argument(11, "--prefill-context-parallel-size"),
    check(12, "adapters_are_for_other_models"),
    variable(12, "INKLING_MULTIMEM_AR"),
    variable(12, "LAMPORT_RS_SCONV"),
    rule(13, "host_tier_spans_nodes"),
    part(13, "hosttier.engine_spans_nodes", lambda _: False),
    part(14, "engine.shared_memory", _only_queues),
    part(14, "command._engines", lambda _: 1),
    argument(15, "--prefix-cache-retention-interval"),
    part(15, "offload.retention_tokens", lambda *_, **__: 4000),
    rule(15, "host_tier_holds_nothing"),
    argument(16, "--kv-transfer-config"),
    flag(16, "--kv-transfer-config"),
    field(17, "spec.cache.objectStore"),
    part(18, "fit.bytes_needed", lambda *_, **__: 0),
    variable(19, "VLLM_ENGINE_READY_TIMEOUT_S"),
    argument(20, "--shutdown-timeout"),
    flag(20, "--shutdown-timeout"),
    argument(21, "--middleware"),
    flag(21, "--middleware"),
    part(22, "layouts._has_nodes", _anywhere),
    part(23, "memory.gpu_usable", lambda size: size * 2),
    part(24, "search.preference", lambda option: (option.token_nanoseconds,)),
    field(25, "spec.serving.disaggregation"),
    field(26, "spec.cache.objectStore"),
    check(27, "rust_frontend_ends_at_an_argument"),
    check(27, "rust_frontend_fetches_from_everywhere"),
    rule(27, "rust_frontend_has_no_balancing"),
    variable(27, "VLLM_USE_RUST_FRONTEND"),
    part(29, "offload._lost", lambda *_: iter(())),
    flag(30, "--prefix-cache-retention-interval"),
    part(30, "offload.retention_tokens", lambda *_, **__: 0),
    part(31, "offload.retention_tokens", lambda *_, **__: 0),
    rule(32, "image_lacks_a_package"),
    fact(32, "needs of catalog/runtimes/cuda.yaml", _without_needs),
    part(33, "speed.runtime_for", _never_split),
)
"""In the order of the traps. T21 and T28 happen at run time, where parts 3 to 5 catch them."""
