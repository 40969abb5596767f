"""Where the pod has what it reads: weights and adapters, from a claim or in the image."""

from __future__ import annotations

from typing import Final

from kindling_operator.model.plan import WeightsMount

WEIGHTS_ROOT: Final = "/mnt/weights"
"""Where the claim with the weights is mounted."""


LOCAL_SCHEMES: Final = ("pvc", "file")
"""What this version can serve from: it is already where the pod can read it."""


def weights_mount(uri: str) -> WeightsMount:
    """Where the engine finds the folder of a pvc:// or file:// URI."""
    scheme, _, rest = uri.partition("://")
    if scheme == "file":
        return WeightsMount(uri=uri, path=rest)
    claim, _, folder = rest.partition("/")
    path = f"{WEIGHTS_ROOT}/{folder}".rstrip("/")
    return WeightsMount(uri=uri, path=path, claim=claim)
