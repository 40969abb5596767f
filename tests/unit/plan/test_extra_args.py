"""Extra arguments are judged as vLLM's parser would read them."""

import re
from typing import Any, Final

import pytest
from msgspec import structs
from tests.support.builders import (
    Cluster,
    catalog_spec,
    cpu_node,
    environment,
    gpu_node,
    tiny_architecture,
    tiny_spec,
)
from tests.support.onenode import ROOT
from tests.support.spec_fields import field_paths

from kindling_operator import catalog
from kindling_operator.catalog import runtimes
from kindling_operator.model.conditions import Reason
from kindling_operator.model.plan import Verdict
from kindling_operator.model.runtime import EngineFacts, OptionValue
from kindling_operator.plan.checks_arguments import NOT_IN_RUST
from kindling_operator.plan.extra_args import first_of, name_of, options_in, read_as
from kindling_operator.plan.forbidden import FORBIDDEN, FORBIDDEN_KEYS


def engine(vllm: str) -> EngineFacts:
    found = runtimes.load_engine(vllm)
    assert found is not None
    return found


ENGINE: Final = engine(runtimes.load("cuda").vllm)
OPTIONS: Final = ENGINE.options
KNOWN: Final = ENGINE.spellings
OWN: Final = {"image": f"mirror.test/own@sha256:{7:064x}"}

FREE: Final = {
    # Requests and answers.
    "--anthropic-disabled-thinking-effort", "--chat-template", "--chat-template-content-format",
    "--cohere-format", "--cohere-is-reasoning-model", "--default-chat-template-kwargs",
    "--enable-auto-tool-choice", "--enable-flash-late-interaction", "--enable-force-include-usage",
    "--enable-per-request-metrics", "--enable-prompt-tokens-details", "--enable-request-id-headers",
    "--enable-tokenizer-info-endpoint", "--exclude-tools-when-tool-choice-none",
    "--fingerprint-mode", "--fingerprint-value", "--generation-config", "--interleave-mm-strings",
    "--logprobs-mode", "--max-logprobs", "--mm-hasher-algorithm", "--override-generation-config",
    "--per-request-spec-decode-metrics", "--reasoning-config", "--reasoning-effort-map",
    "--reasoning-parser", "--response-role", "--return-tokens-as-token-ids", "--seed",
    "--sse-keep-alive-interval", "--stream-interval", "--structured-outputs-config", "--tokenizer",
    "--tokenizer-mode", "--tool-call-parser", "--tool-server", "--tool-strict-level",
    "--trust-request-chat-template", "--video-pruning-method", "--video-pruning-rate",
    # The server.
    "--allow-credentials", "--allowed-headers", "--allowed-methods", "--allowed-origins",
    "--disable-fastapi-docs", "--enable-offline-docs", "--enable-server-load-tracking",
    "--h11-max-header-count", "--h11-max-incomplete-event-size", "--renderer-num-workers",
    # Logs, metrics, traces.
    "--aggregate-engine-logging", "--collect-detailed-traces", "--cudagraph-metrics",
    "--custom-histogram-buckets", "--disable-access-log-for-endpoints",
    "--disable-uvicorn-access-log", "--enable-layerwise-nvtx-tracing", "--enable-log-deltas",
    "--enable-log-outputs", "--enable-log-requests", "--enable-logging-iteration-details",
    "--enable-mfu-metrics", "--enforce-eager", "--jit-monitor-mode", "--jit-monitor-verbose",
    "--kv-cache-metrics", "--kv-cache-metrics-sample", "--kv-events-config", "--log-error-stack",
    "--log-level", "--max-log-len", "--otlp-traces-endpoint", "--show-hidden-metrics-for-version",
    "--use-tqdm-on-load", "--uvicorn-log-level", "--watchdog-config",
    # Which request comes when.
    "--disable-chunked-mm-input", "--long-prefill-token-threshold",
    "--long-prefill-token-threshold-adaptive", "--max-num-queued-reqs", "--max-num-queued-tokens",
    "--prefill-schedule-interval", "--prefix-caching-hash-algo", "--scheduling-policy",
    # Kernels that hold nothing, and how processes lie and wait.
    "--additional-config", "--cpu-distributed-timeout-seconds", "--disable-custom-all-reduce",
    "--disable-nccl-for-dp-synchronization", "--distributed-timeout-seconds", "--dp-sync-interval",
    "--enable-flashinfer-autotune", "--enable-mamba-cache-stochastic-rounding",
    "--expert-placement-strategy", "--fail-on-environ-validation", "--gdn-prefill-backend",
    "--ir-op-priority", "--kda-decode-backend", "--kda-prefill-backend",
    "--kv-sharing-fast-prefill", "--linear-backend", "--mamba-backend",
    "--mamba-cache-philox-rounds", "--mamba-ssu-algorithm", "--mm-device-do-normalize",
    "--mm-encoder-attn-backend", "--moe-backend", "--numa-bind", "--numa-bind-cpus",
    "--numa-bind-nodes", "--sparse-indexer-topk-backend",
    # Reading the weights.
    "--config-format", "--enable-ep-weight-filter", "--ignore-patterns",
    "--max-parallel-loading-workers", "--safetensors-prefetch-num-threads",
    # Without effect in this vLLM.
    "--disable-cascade-attn", "--mamba-cache-mode",
}  # fmt: skip
"""What changes no number of a plan and keeps a replica reachable: the user's own."""

NAMES = {
    "plain": ("--max-model-len", "--max-model-len"),
    "with a value": ("--max-model-len=4096", "--max-model-len"),
    "with underscores": ("--max_model_len=4096", "--max-model-len"),
    "switched off": ("--no-enable-log-requests", "--no-enable-log-requests"),
    "a key of a config": ("--kernel-config.enable_x=False", "--kernel-config"),
    "a value with dots and dashes": ("--seed=a.b--c", "--seed"),
}


@pytest.mark.parametrize(("argument", "name"), NAMES.values(), ids=NAMES.keys())
def test_the_name_in_an_argument(argument: str, name: str) -> None:
    assert name_of(argument) == name


READ = {
    "in full": ("--seed=1", ["--seed"]),
    "in full, though others begin so": ("--tokenizer=x", ["--tokenizer"]),
    "another name": ("--device-memory-utilization=1", ["--gpu-memory-utilization"]),
    "a short form": ("-tp=8", ["--tensor-parallel-size"]),
    "switched off": ("--no-async-scheduling", ["--async-scheduling"]),
    "the opposite of enable": ("--disable-expert-parallel", ["--enable-expert-parallel"]),
    "the opposite of disable": ("--enable-sliding-window", ["--disable-sliding-window"]),
    "an abbreviation": ("--tensor-par=8", ["--tensor-parallel-size"]),
    "an abbreviation that is switched off": ("--no-async-s", ["--async-scheduling"]),
    "an abbreviation of a part": ("--kv-transfer.kv_role=x", ["--kv-transfer-config"]),
    "an abbreviation of several": ("--use-r", ["--use-replayssm"]),
    "of none": ("--no-such=1", []),
    "longer than an option": ("--seeds=1", []),
}


@pytest.mark.parametrize(("argument", "options"), READ.values(), ids=READ.keys())
def test_what_vllm_reads(argument: str, options: list[str]) -> None:
    assert list(read_as(argument, KNOWN)) == options


def test_every_option_of_vllm_is_decided_once() -> None:
    """A new vLLM with new options fails here: each is the plan's or the user's."""
    assert set(FORBIDDEN) | FREE == set(OPTIONS)
    assert set(FORBIDDEN) & FREE == set()


def test_the_docs_tell_how_many() -> None:
    text = (ROOT / "docs" / "planner.md").read_text()

    assert f"Each of the {len(OPTIONS)} options of vLLM 0.33.0 is decided" in text
    assert f"* {len(FORBIDDEN)} are refused by name" in text
    assert f"* {len(FREE)} are the user's own" in text


def test_the_older_vllm_of_the_cpu_image_has_no_option_that_is_not_decided() -> None:
    older = engine(runtimes.load("cpu").vllm).options

    assert set(older) - set(OPTIONS) == set()
    assert {name for name in older if older[name].value is not OPTIONS[name].value} == set()


def test_no_two_options_share_a_spelling() -> None:
    every = [each for name, option in OPTIONS.items() for each in (name, *option.also)]

    assert len(every) == len(set(every)) == len(KNOWN)


@pytest.mark.parametrize("way_out", sorted({*FORBIDDEN.values(), *FORBIDDEN_KEYS.values()}))
def test_ways_out_read_on_after_a_colon_and_name_fields_that_exist(way_out: str) -> None:
    named = re.findall(r"spec(?:\.[a-zA-Z]+)+", way_out)

    assert way_out[0].islower()
    assert not way_out.endswith(".")
    assert {path for path in named if not any(f.startswith(path) for f in field_paths())} == set()


def test_what_the_catalog_and_the_rust_frontend_refuse_are_options_of_vllm() -> None:
    broken = {f.argument for e in catalog.load_all().values() for f in e.forbidden_arguments}

    assert broken - set(OPTIONS) == set()
    assert set(NOT_IN_RUST) - FREE == set()


def judged(argument: str, **fields: Any) -> Verdict | None:
    """What is said of an argument to a model on a GPU, None if it is accepted."""
    own = tiny_spec(tiny_architecture(devices=["GPU"]), serving={"extraArgs": [argument]}, **fields)
    found = Cluster(nodes=(gpu_node("gpu-0"),)).apply(own).decide()
    return found.refused


@pytest.mark.parametrize("option", FORBIDDEN)
def test_an_owned_option_is_found_in_each_spelling(option: str) -> None:
    long = [each for each in (option, *OPTIONS[option].also) if each.startswith("--")]
    underscored = [f"--{each[2:].replace('-', '_')}" for each in long]

    for spelling in (*long, *underscored):
        for argument in (spelling, f"{spelling}=1", f"{spelling}.key=1"):
            assert first_of(argument, FORBIDDEN, KNOWN) == option


@pytest.mark.parametrize("option", FORBIDDEN)
def test_an_owned_option_is_refused(option: str) -> None:
    refused = judged(f"{option}=1")

    assert refused is not None
    assert (refused.reason, refused.message) == (
        Reason.FORBIDDEN_ARGUMENT,
        f"spec.serving.extraArgs: {option} is refused: {FORBIDDEN[option]}.",
    )


def test_an_owned_option_is_refused_as_it_is_written() -> None:
    refused = judged("--no_async_sched")

    assert refused is not None
    assert refused.message == (
        "spec.serving.extraArgs: --no-async-sched (read as --async-scheduling) is refused:"
        f" {FORBIDDEN['--async-scheduling']}."
    )


@pytest.mark.parametrize("argument", ["--tensor-par=8", "--disable-expert-parallel"])
def test_an_owned_option_is_refused_of_an_image_that_nobody_described(argument: str) -> None:
    refused = judged(argument, runtime=OWN)

    assert refused is not None
    assert "is refused: use spec.placement.parallelism instead." in refused.message


@pytest.mark.parametrize("option", sorted(FREE))
def test_what_is_the_users_own_passes(option: str) -> None:
    value = "" if OPTIONS[option].value is OptionValue.NONE else "=1"

    assert judged(f"{option}{value}") is None


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        (
            "--max-num-queued-req=1",
            "",  # argparse takes it for --max-num-queued-reqs.
        ),
        (
            "--max-num-queud-reqs=1",
            "--max-num-queud-reqs is no option of vLLM 0.33.0, which the runtime image cuda has:"
            " use --max-num-queued-reqs or --max-num-queued-tokens if that is meant, or remove it",
        ),
        (
            "--tensor-paralel-size=2",
            "--tensor-paralel-size is no option of vLLM 0.33.0, which the runtime image cuda has:"
            " if --tensor-parallel-size is meant, use spec.placement.parallelism instead",
        ),
        (
            "--swap-space=4",
            "--swap-space is no option of vLLM 0.33.0, which the runtime image cuda has: remove it",
        ),
        (
            "--enable-log",
            "--enable-log may mean --enable-log-outputs, --enable-log-deltas,"
            " --enable-logging-iteration-details, --enable-log-requests: write one of them in full",
        ),
        (
            "--enable-log-requests=true",
            "--enable-log-requests takes no value: write --enable-log-requests or"
            " --no-enable-log-requests",
        ),
        ("--seed", "--seed takes a value: write --seed=VALUE"),
        (
            '--structured-outputs-config={"reasoning_parser_plugin":"/p.py"}',
            "reasoning_parser_plugin in --structured-outputs-config is refused:"
            f" {FORBIDDEN_KEYS['reasoning_parser_plugin']}",
        ),
        (
            "--structured-outputs-config.reasoning_parser_plugin=/p.py",
            "reasoning_parser_plugin in --structured-outputs-config is refused:"
            f" {FORBIDDEN_KEYS['reasoning_parser_plugin']}",
        ),
        ("--structured-outputs-config.backend=xgrammar", ""),
    ],
)
def test_what_vllm_cannot_read_is_told_with_the_way_out(argument: str, complaint: str) -> None:
    refused = judged(argument)

    expected = f"spec.serving.extraArgs: {complaint}." if complaint else None
    assert (refused and refused.message) == expected


@pytest.mark.parametrize("argument", ["--swap-space=4", "--enable-log", "--enable-log-requests=1"])
def test_an_image_that_nobody_described_may_have_another_parser(argument: str) -> None:
    assert judged(argument) is not None
    assert judged(argument, runtime=OWN) is None


def test_an_image_with_a_vllm_that_nobody_knows_may_have_another_parser() -> None:
    cuda = structs.replace(runtimes.load("cuda"), vllm="0.99.0", engine=None)
    both = {"cuda": cuda, "cpu": runtimes.load("cpu")}
    installed = Cluster(nodes=(gpu_node("gpu-0"),), environment=environment(runtimes=both))
    spec = tiny_spec(tiny_architecture(devices=["GPU"]), serving={"extraArgs": ["--brand-new=1"]})

    assert installed.apply(spec).decide().refused is None


def test_each_image_of_a_model_must_read_an_argument() -> None:
    """vLLM 0.33.0 on GPUs has --watchdog-config, vLLM 0.32.0 on the CPU has not."""
    arguments = {"extraArgs": ["--watchdog-config.timeout=9"]}
    both = tiny_spec(tiny_architecture(devices=["GPU", "CPU"]), serving=arguments)
    refused = Cluster(nodes=(gpu_node("gpu-0"),)).apply(both).decide().refused

    assert judged("--watchdog-config.timeout=9") is None
    assert refused is not None
    assert "--watchdog-config is no option of vLLM 0.32.0" in refused.message


def test_what_the_plan_renders_cannot_be_given_again() -> None:
    """A second value would win in vLLM's parser, and the plan would not be true."""
    found = Cluster(nodes=(gpu_node("gpu-0"), cpu_node()))
    four_bit = catalog_spec("flint", model={"checkpoint": "NVFP4"})
    for spec in (tiny_spec(), catalog_spec("flint"), four_bit):
        current = found.apply(spec).decide().current
        assert current is not None
        for option in sorted(options_in(current.plan.argv, KNOWN)):
            value = "" if OPTIONS[option].value is OptionValue.NONE else "=x"
            extra = {**spec, "serving": {"extraArgs": [f"{option}{value}"]}}
            refused = found.apply(extra).decide().refused
            assert refused is not None, option
            assert f"{option} is refused" in refused.message
