"""Start vLLM once for each case and let it log its KV cache; then print what it exports, as JSON.

Runs with the Python of the CPU image, alone: standard library and vLLM only. The cases are JSON in
the first argument: folder of the model, context, tokens of a batch.
"""

import gc
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # all engines in this process: one import
vllm: Any = importlib.import_module("vllm")
distributed: Any = importlib.import_module("vllm.distributed")


def start(folder: str, context: int, batched: int) -> int:
    """Blocks of the KV cache of an engine that was up."""
    name = json.loads((Path(folder) / "config.json").read_text())["architectures"][0]
    # As a class, where vLLM would start a process to look at what is behind the name.
    known = vllm.ModelRegistry.models[name]
    if hasattr(known, "module_name"):
        vllm.ModelRegistry.register_model(name, known.load_model_cls())
    engine = vllm.LLM(
        model=folder, max_model_len=context, max_num_batched_tokens=batched, enforce_eager=True
    )
    blocks: int = engine.llm_engine.vllm_config.cache_config.num_gpu_blocks
    del engine
    gc.collect()
    distributed.cleanup_dist_env_and_memory()
    return blocks


def main() -> None:
    """Print {"blocks": [...]} after everything that vLLM logs."""
    blocks = [start(*case) for case in json.loads(sys.argv[1])]
    json.dump({"blocks": blocks}, sys.stdout)


if __name__ == "__main__":
    main()
