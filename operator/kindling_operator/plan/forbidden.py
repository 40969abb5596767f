"""Options of vLLM that a user may not give in ``spec.serving.extraArgs``, with what to do instead.

One is here because the plan sets it, because the plan's numbers would not hold with it (memory, KV
cache, what an engine holds of the model), because a replica would not get ready with it or could
not be reached, because it loads code or shows a secret. A way out reads on after a colon. Whatever
vLLM has and is not here is the user's own: parsers, templates, sampling, logs, metrics, queueing.

Source: `vllm serve --help=all` of vLLM 0.33.0, and the config classes that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_FORMAT: Final = (
    "the plan counts weights and KV cache in the checkpoint's format, use spec.model.checkpoint"
)
_SHAPES: Final = (
    "the plan is made for the model that spec.model describes, describe another in"
    " spec.model.custom"
)
_LOADING: Final = "the plan counts what loading takes in memory and time, remove it"
_OFFLINE: Final = "the engine downloads nothing, remove it"
_CODE: Final = (
    "it loads code into the engine, build that into an image and describe the image under the"
    " chart's `runtimes`"
)
_GENERATES: Final = "a replica is ready when it has generated a token from text, remove it"
_CONTEXT: Final = "use spec.serving.contextLength instead"
_CONCURRENCY: Final = "use spec.serving.concurrency instead"
_ADMISSION: Final = "the plan counts how many requests the KV cache admits, remove it"
_PARALLELISM: Final = "use spec.placement.parallelism instead"
_RANKS: Final = "the plan counts what each rank holds and exchanges, remove it"
_CONTEXT_RANKS: Final = "neither Inkling nor Flint runs with context parallelism, remove it"
_OVERLAP: Final = "it needs another all2all backend than the models run with, remove it"
_PROCESSES: Final = "the plan starts the processes of a replica, remove it"
_GPUS: Final = "the kubelet says which GPUs a pod has, remove it"
_WHOLE: Final = "a replica that lost a rank is replaced as a whole, remove it"
_MEMORY: Final = "the plan divides the memory, remove it"
_UNCOUNTED: Final = "it takes memory that the plan does not count, remove it"
_SHARED: Final = "the plan counts what lies in /dev/shm, remove it"
_COMPILED: Final = (
    "the plan counts the memory and the start of compiled mode with its CUDA graphs, remove it"
)
_BLOCKS: Final = "the plan counts the KV cache in the engine's own blocks, remove it"
_PREFIXES: Final = "the tiers of the cache need it as it is, remove it"
_CACHE: Final = "use spec.cache instead"
_SPECULATION: Final = "use spec.serving.speculation instead"
_KERNELS: Final = "the plan chooses the attention kernel of each KV group, remove it"
_MEDIA: Final = "the plan bounds the media of a request, use spec.serving.modalities"
_EMBEDDINGS: Final = "a request with tensors of a wrong shape ends the engine, remove it"
_ADAPTERS: Final = "use spec.serving.adapters instead"
_ADDRESS: Final = "the Service and the probes count on 0.0.0.0:8000, remove it"
_PLAIN_HTTP: Final = "the readiness probe speaks plain HTTP, terminate TLS in front of the Service"
_SPEAKS_HTTP: Final = "the probes and the endpoint speak HTTP, remove it"
_KEYS: Final = "a pod's arguments are no secret, have keys checked in front of the Service"
_SLEEP: Final = "a replica that sleeps is dead to its probes, set spec.replicas 0 instead"
_LOGS: Final = "a pod's last words are read from vLLM's own log, use --log-level instead"

_MODEL: Final = {
    "--model": "use spec.model.weights.uri instead",
    "--served-model-name": "use spec.serving.servedName instead",
    "--hf-overrides": _SHAPES,
    "--hf-config-path": _SHAPES,
    "--model-impl": _SHAPES,
    "--dtype": _FORMAT,
    "--quantization": _FORMAT,
    "--quantization-config": _FORMAT,
    "--allow-deprecated-quantization": _FORMAT,
    "--mm-encoder-attn-dtype": _FORMAT,
    "--mm-encoder-fp8-scale-path": _FORMAT,
    "--mm-encoder-fp8-scale-save-path": _FORMAT,
    "--mm-encoder-fp8-scale-save-margin": _FORMAT,
    "--load-format": _LOADING,
    "--model-loader-extra-config": _LOADING,
    "--safetensors-load-strategy": _LOADING,
    "--safetensors-prefetch-block-size": _LOADING,
    "--pt-load-map-location": _LOADING,
    "--download-dir": "use spec.model.weights.cacheClaim instead",
    "--revision": "use spec.model.weights.revision instead",
    "--tokenizer-revision": _OFFLINE,
    "--weight-transfer-config": "a replica keeps the weights that it starts with, remove it",
    "--runner": _GENERATES,
    "--convert": _GENERATES,
    "--pooler-config": _GENERATES,
    "--diffusion-config": _GENERATES,
    "--skip-tokenizer-init": _GENERATES,
    "--mm-encoder-only": _GENERATES,
    "--tokens-only": _GENERATES,
}

_CODE_AND_SECRETS: Final = {
    "--trust-remote-code": _CODE,
    "--code-revision": _CODE,
    "--model-class-overrides": _CODE,
    "--logits-processors": _CODE,
    "--io-processor-plugin": _CODE,
    "--tool-parser-plugin": _CODE,
    "--reasoning-parser-plugin": _CODE,
    "--middleware": _CODE,
    "--worker-cls": _CODE,
    "--worker-extension-cls": _CODE,
    "--scheduler-cls": _CODE,
    "--ec-manager-config": _CODE,
    "--hf-token": "a pod's arguments are no secret, use spec.model.weights.tokenSecretRef instead",
    "--api-key": _KEYS,
    "--watermark-config": "its key is a secret and a pod's arguments are none, remove it",
    "--config": "a file would hide arguments from the plan, list them here",
}

_RANKS_AND_PROCESSES: Final = {
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
    "--data-parallel-supervisor-port": _PARALLELISM,
    "--dp-supervisor-probe-interval-s": _PARALLELISM,
    "--dp-supervisor-probe-timeout-s": _PARALLELISM,
    "--dp-supervisor-probe-failure-threshold": _PARALLELISM,
    "--enable-elastic-ep": _PARALLELISM,
    "--elastic-ep-max-dp-size": _PARALLELISM,
    "--enable-eplb": _RANKS,
    "--eplb-config": _RANKS,
    "--enable-hc-sp": _RANKS,
    "--enable-batch-sharded-sampling": _RANKS,
    "--mm-encoder-tp-mode": _RANKS,
    "--decode-context-parallel-size": _CONTEXT_RANKS,
    "--prefill-context-parallel-size": _CONTEXT_RANKS,
    "--dcp-comm-backend": _CONTEXT_RANKS,
    "--dcp-q-replicate": _CONTEXT_RANKS,
    "--dcp-kv-cache-interleave-size": _CONTEXT_RANKS,
    "--cp-kv-cache-interleave-size": _CONTEXT_RANKS,
    "--enable-dbo": _OVERLAP,
    "--dbo-decode-token-threshold": _OVERLAP,
    "--dbo-prefill-token-threshold": _OVERLAP,
    "--ubatch-size": _OVERLAP,
    "--headless": _PROCESSES,
    "--api-server-count": _PROCESSES,
    "--nnodes": _PROCESSES,
    "--node-rank": _PROCESSES,
    "--master-addr": _PROCESSES,
    "--master-port": _PROCESSES,
    "--distributed-executor-backend": _PROCESSES,
    "--ray-workers-use-nsight": _PROCESSES,
    "--device-ids": _GPUS,
    "--enable-fault-tolerance": _WHOLE,
    "--fault-tolerance-config": _WHOLE,
}

_MEMORY_AND_CACHE: Final = {
    "--gpu-memory-utilization": _MEMORY,
    "--kv-cache-memory-bytes": _MEMORY,
    "--num-gpu-blocks-override": _MEMORY,
    "--offload-backend": _MEMORY,
    "--cpu-offload-gb": _MEMORY,
    "--cpu-offload-params": _MEMORY,
    "--offload-group-size": _MEMORY,
    "--offload-num-in-group": _MEMORY,
    "--offload-prefetch-step": _MEMORY,
    "--offload-params": _MEMORY,
    "--engram-config": _MEMORY,
    "--enable-cumem-allocator": _MEMORY,
    "--skip-mm-profiling": _MEMORY,
    "--enable-return-routed-experts": _UNCOUNTED,
    "--aux-output-config": _UNCOUNTED,
    "--return-sampling-mask": _UNCOUNTED,
    "--use-fp64-gumbel": _UNCOUNTED,
    "--enable-trace-replay": _UNCOUNTED,
    "--mm-processor-cache-gb": _UNCOUNTED,
    "--mm-processor-device": _UNCOUNTED,
    "--mm-ipc-gpu-memory-gb": _UNCOUNTED,
    "--mm-processor-cache-type": _SHARED,
    "--mm-shm-cache-max-object-size-mb": _SHARED,
    "--mm-tensor-ipc": _SHARED,
    "--enable-shm-tensor-arena": _SHARED,
    "--compilation-config": _COMPILED,
    "--cudagraph-capture-sizes": _COMPILED,
    "--max-cudagraph-capture-size": _COMPILED,
    "--optimization-level": _COMPILED,
    "--performance-mode": _COMPILED,
    "--block-size": _BLOCKS,
    "--kv-cache-dtype": _FORMAT,
    "--kv-cache-dtype-skip-layers": _FORMAT,
    "--disable-hybrid-kv-cache-manager": _BLOCKS,
    "--disable-sliding-window": _BLOCKS,
    "--swa-bounded-replay": _BLOCKS,
    "--mamba-cache-dtype": _BLOCKS,
    "--mamba-ssm-cache-dtype": _BLOCKS,
    "--mamba-block-size": _BLOCKS,
    "--use-replayssm": _BLOCKS,
    "--replayssm-buffer-len": _BLOCKS,
    "--prefix-match-unit": _BLOCKS,
    "--enable-prefix-caching": _PREFIXES,
    "--prefix-cache-retention-interval": _CACHE,
    "--enable-mamba-shared-prefix-checkpoint": _CACHE,
    "--kv-transfer-config": _CACHE,
    "--kv-offloading-size": _CACHE,
    "--kv-offloading-backend": _CACHE,
    "--ec-transfer-config": _CACHE,
}

_STEPS_AND_KERNELS: Final = {
    "--max-model-len": _CONTEXT,
    "--max-num-batched-tokens": _CONCURRENCY,
    "--max-num-scheduled-tokens": _CONCURRENCY,
    "--max-num-seqs": _CONCURRENCY,
    "--max-num-active-seqs": _CONCURRENCY,
    "--enable-chunked-prefill": "a context longer than one step needs it, remove it",
    "--scheduler-reserve-full-isl": _ADMISSION,
    "--watermark": _ADMISSION,
    "--async-scheduling": "the plan counts the batches in flight as the engine has them, remove it",
    "--speculative-config": _SPECULATION,
    "--spec-method": _SPECULATION,
    "--spec-model": _SPECULATION,
    "--spec-tokens": _SPECULATION,
    "--attention-backend": _KERNELS,
    "--attention-config": _KERNELS,
    "--kernel-config": "use the options of its keys instead, such as --moe-backend",
    "--monokernel": "no NVIDIA GPU has it, remove it",
}

_MEDIA_AND_ADAPTERS: Final = {
    "--language-model-only": "use spec.serving.modalities instead",
    "--limit-mm-per-prompt": _MEDIA,
    "--media-io-kwargs": _MEDIA,
    "--mm-processor-kwargs": _MEDIA,
    "--trust-request-mm-kwargs": _MEDIA,
    "--allowed-media-domains": "use spec.serving.mediaDomains instead",
    "--allowed-local-media-path": "requests may not read the pod's files, remove it",
    "--enable-prompt-embeds": _EMBEDDINGS,
    "--enable-mm-embeds": _EMBEDDINGS,
    "--enable-lora": _ADAPTERS,
    "--lora-modules": _ADAPTERS,
    "--default-mm-loras": _ADAPTERS,
    "--max-loras": _ADAPTERS,
    "--max-cpu-loras": _ADAPTERS,
    "--max-lora-rank": _ADAPTERS,
    "--max-lora-cls-labels": _ADAPTERS,
    "--lora-dtype": _ADAPTERS,
    "--lora-target-modules": _ADAPTERS,
    "--fully-sharded-loras": _ADAPTERS,
    "--specialize-active-lora": _ADAPTERS,
    "--enable-tower-connector-lora": _ADAPTERS,
    "--enable-mixed-moe-lora-format": _ADAPTERS,
    "--enable-moe-shared-loras": _ADAPTERS,
}

_SERVER: Final = {
    "--host": _ADDRESS,
    "--port": _ADDRESS,
    "--uds": _ADDRESS,
    "--root-path": "the Service and the probes use the paths as they are, remove it",
    "--ssl-keyfile": _PLAIN_HTTP,
    "--ssl-certfile": _PLAIN_HTTP,
    "--ssl-ca-certs": _PLAIN_HTTP,
    "--ssl-cert-reqs": _PLAIN_HTTP,
    "--ssl-ciphers": _PLAIN_HTTP,
    "--enable-ssl-refresh": _PLAIN_HTTP,
    "--grpc": _SPEAKS_HTTP,
    "--grpc-port": _SPEAKS_HTTP,
    "--shutdown-timeout": "use spec.rollout.drainDeadline instead",
    "--disable-log-stats": "the probes read the engine's counters, remove it",
    "--logging-config": _LOGS,
    "--log-config-file": _LOGS,
    "--enable-scale-out": "it lets every client end the requests of others, remove it",
    "--profiler-config": "it lets every client slow the engine down, remove it",
    "--enable-sleep-mode": _SLEEP,
    "--sleep-mode-backend": _SLEEP,
    "--sleep-mode-offload-cudagraph": _SLEEP,
    "--sleep-preserve-parameter-names": _SLEEP,
    "--enable-nccl-comm-suspend": _SLEEP,
    "--help": "the engine would print it and end, remove it",
}

FORBIDDEN: Final[Mapping[str, str]] = {
    **_MODEL,
    **_CODE_AND_SECRETS,
    **_RANKS_AND_PROCESSES,
    **_MEMORY_AND_CACHE,
    **_STEPS_AND_KERNELS,
    **_MEDIA_AND_ADAPTERS,
    **_SERVER,
}
"""By the option's own name: the first long one that `vllm serve --help` prints."""

FORBIDDEN_KEYS: Final[Mapping[str, str]] = {"reasoning_parser_plugin": _CODE}
"""Keys of options that are allowed otherwise (--structured-outputs-config)."""
