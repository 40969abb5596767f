"""Parse commands with vLLM's own parser; print what became of each, as JSON.

stdin: a JSON list of argument lists without ``vllm serve``. Runs with the Python of the CPU image,
alone. An answer is an error, or a few of the values that the parser read.
"""

import contextlib
import importlib
import io
import json
import sys

SHOWN = (
    "model_tag",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "enable_expert_parallel",
    "allowed_media_domains",
    "limit_mm_per_prompt",
    "speculative_config",
    "kv_transfer_config",
    "ec_transfer_config",
    "prefix_cache_retention_interval",
)


def parsed(arguments: list[str]) -> dict[str, object]:
    """What the parser reads, or its complaint."""
    said = io.StringIO()
    command = importlib.import_module("vllm.entrypoints.launchers.cli_args")
    reader = importlib.import_module("vllm.utils.argparse_utils")
    parser = command.make_arg_parser(reader.FlexibleArgumentParser())
    try:
        with contextlib.redirect_stderr(said):
            found = parser.parse_args(arguments)
            command.validate_parsed_serve_args(found)
    except (SystemExit, Exception) as error:
        return {"error": f"{error}: {said.getvalue()[-500:]}"}
    values = {name: getattr(found, name) for name in SHOWN}
    adapters = [[each.name, each.path] for each in found.lora_modules or ()]
    per_kind = getattr(found.attention_config, "backend_per_kind", None) or {}
    kernels = {kind: backend.name for kind, backend in per_kind.items()}
    return {**values, "lora_modules": adapters, "backend_per_kind": kernels}


def main() -> None:
    """Print one answer for each command."""
    commands = json.load(sys.stdin)
    with contextlib.redirect_stdout(io.StringIO()):
        answers = [parsed(arguments) for arguments in commands]
    json.dump(answers, sys.stdout, default=repr)


if __name__ == "__main__":
    main()
