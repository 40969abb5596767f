"""Import every module of vLLM that a request can reach; print those that fail, as JSON.

Runs with the Python of the CPU image, alone: standard library and vLLM only.
"""

import contextlib
import importlib
import io
import json
import pkgutil
import sys

PACKAGES = (
    "vllm.entrypoints",
    "vllm.tool_parsers",
    "vllm.reasoning",
    "vllm.parser",
    "vllm.renderers",
    "vllm.tokenizers",
    "vllm.v1.structured_output",
    "vllm.v1.kv_offload",
    "vllm.distributed.kv_transfer",
)


def modules() -> list[str]:
    """The packages and everything in them."""
    found = []
    for package in PACKAGES:
        found.append(package)
        paths = importlib.import_module(package).__path__
        found += [each.name for each in pkgutil.walk_packages(paths, f"{package}.", onerror=print)]
    return found


def main() -> None:
    """Print {"imported": number, "failed": {module: error}}."""
    failed, imported = {}, 0
    with contextlib.redirect_stdout(io.StringIO()):
        for name in modules():
            try:
                importlib.import_module(name)
            except BaseException as error:  # some modules end the process when a package is missing
                failed[name] = f"{type(error).__name__}: {error}"
            else:
                imported += 1
    json.dump({"imported": imported, "failed": failed}, sys.stdout)


if __name__ == "__main__":
    main()
