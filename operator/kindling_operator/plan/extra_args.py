"""``spec.serving.extraArgs``: which vLLM options a user may not give, and what to do instead.

vLLM's parser reads ``_`` as ``-``, ``--config.key`` as a part of ``--config``, ``--no-x`` as the
opposite of ``--x``, and an abbreviation as the option that it begins (argparse), so a name is
judged after the same treatment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_CONTEXT = "use spec.serving.contextLength instead"
_CONCURRENCY = "use spec.serving.concurrency instead"
_PARALLELISM = "use spec.placement.parallelism instead"
_CACHE = "use spec.cache instead"
_ADAPTERS = "use spec.serving.adapters instead"
_MEMORY = "the plan divides the memory, remove it"
_ADDRESS = "the Service and the probes count on 0.0.0.0:8000, remove it"
_ONE_NODE = "the plan starts the processes of a replica, remove it"
_PLAIN_HTTP = "the readiness probe speaks plain HTTP, terminate TLS in front of the Service"
_BLOCKS = "the plan counts the KV cache in the engine's own blocks, remove it"
_GENERATES = "a replica is ready when it has generated a token from text, remove it"
_SPECULATION = "use spec.serving.speculation instead"
_KERNELS = "the plan chooses the attention kernel of each KV group, remove it"
_CONTEXT_RANKS = "neither Inkling nor Flint runs with context parallelism, remove it"
_BF16 = "the plan counts weights and KV cache in the checkpoint's format, use spec.model.checkpoint"

FORBIDDEN: Mapping[str, str] = {
    "--model": "use spec.model.weights.uri instead",
    "--served-model-name": "use spec.serving.servedName instead",
    "--config": "a file would hide arguments from the plan, list them here",
    "--host": _ADDRESS,
    "--port": _ADDRESS,
    "--uds": _ADDRESS,
    "--ssl-keyfile": _PLAIN_HTTP,
    "--ssl-certfile": _PLAIN_HTTP,
    "--ssl-ca-certs": _PLAIN_HTTP,
    "--ssl-cert-reqs": _PLAIN_HTTP,
    "--api-key": "a pod's arguments are no secret, have keys checked in front of the Service",
    "--max-model-len": _CONTEXT,
    "--max-num-batched-tokens": _CONCURRENCY,
    "--max-num-seqs": _CONCURRENCY,
    "--max-num-scheduled-tokens": _CONCURRENCY,
    "--tensor-parallel-size": _PARALLELISM,
    "--pipeline-parallel-size": _PARALLELISM,
    "--enable-expert-parallel": _PARALLELISM,
    "--all2all-backend": "the models run with the one that the plan sets, remove it",
    "--data-parallel-size": _PARALLELISM,
    "--data-parallel-size-local": _PARALLELISM,
    "--data-parallel-rank": _PARALLELISM,
    "--data-parallel-start-rank": _PARALLELISM,
    "--data-parallel-address": _PARALLELISM,
    "--data-parallel-rpc-port": _PARALLELISM,
    "--data-parallel-backend": _PARALLELISM,
    "--data-parallel-hybrid-lb": _PARALLELISM,
    "--data-parallel-external-lb": _PARALLELISM,
    "--data-parallel-multi-port-external-lb": _PARALLELISM,
    "--enable-elastic-ep": _PARALLELISM,
    "--decode-context-parallel-size": _CONTEXT_RANKS,
    "--prefill-context-parallel-size": _CONTEXT_RANKS,
    "--headless": _ONE_NODE,
    "--api-server-count": _ONE_NODE,
    "--nnodes": _ONE_NODE,
    "--node-rank": _ONE_NODE,
    "--master-addr": _ONE_NODE,
    "--master-port": _ONE_NODE,
    "--distributed-executor-backend": _ONE_NODE,
    "--gpu-memory-utilization": _MEMORY,
    "--device-memory-utilization": _MEMORY,
    "--kv-cache-memory-bytes": _MEMORY,
    "--num-gpu-blocks-override": _MEMORY,
    "--cpu-offload-gb": _MEMORY,
    "--offload-backend": _MEMORY,
    "--block-size": _BLOCKS,
    "--disable-hybrid-kv-cache-manager": _BLOCKS,
    "--disable-sliding-window": _BLOCKS,
    "--kv-cache-dtype": _BF16,
    "--dtype": _BF16,
    "--quantization": _BF16,
    "--quantization-config": _BF16,
    "--kv-transfer-config": _CACHE,
    "--kv-offloading-size": _CACHE,
    "--kv-offloading-backend": _CACHE,
    "--prefix-cache-retention-interval": _CACHE,
    "--ec-transfer-config": _CACHE,
    "--speculative-config": _SPECULATION,
    "--spec-method": _SPECULATION,
    "--spec-model": _SPECULATION,
    "--spec-tokens": _SPECULATION,
    "--enable-lora": _ADAPTERS,
    "--lora-modules": _ADAPTERS,
    "--max-loras": _ADAPTERS,
    "--attention-backend": _KERNELS,
    "--attention-config": _KERNELS,
    "--enable-dbo": "it needs another all2all backend than the models run with, remove it",
    "--language-model-only": "use spec.serving.modalities instead",
    "--limit-mm-per-prompt": "the plan bounds the media of a request, use spec.serving.modalities",
    "--allowed-media-domains": "use spec.serving.mediaDomains instead",
    "--allowed-local-media-path": "requests may not read the pod's files, remove it",
    "--shutdown-timeout": "use spec.rollout.drainDeadline instead",
    "--disable-log-stats": "the probes read the engine's counters, remove it",
    "--runner": _GENERATES,
    "--convert": _GENERATES,
    "--grpc": "the probes and the endpoint speak HTTP, remove it",
    "--hf-token": "nothing is downloaded and a pod's arguments are no secret, remove it",
    "--skip-tokenizer-init": _GENERATES,
    "--mm-encoder-only": _GENERATES,
}
"""What the plan owns or what breaks every model, with the way out."""


def option_of(argument: str) -> str:
    """The option that an argument sets: ``--no-a_b.c=1`` sets ``--a-b``."""
    name = argument.partition("=")[0].partition(".")[0].replace("_", "-")
    return f"--{name.removeprefix('--no-')}" if name.startswith("--no-") else name


def forbidden_argument(argument: str, forbidden: Mapping[str, str]) -> tuple[str, str] | None:
    """The forbidden option that an argument sets or abbreviates, and the way out; or None."""
    name = option_of(argument)
    if name in forbidden:
        return name, forbidden[name]
    return next(((o, way) for o, way in forbidden.items() if o.startswith(name)), None)


def options(arguments: Iterable[str]) -> set[str]:
    """The options among a command's arguments."""
    return {option_of(argument) for argument in arguments if argument.startswith("--")}
