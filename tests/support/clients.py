"""The operator's own client, in the test's process, against a test's API server."""

from pathlib import Path

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import load_kube_config


async def configured(kubeconfig: Path) -> Configuration:
    """The configuration for one kubeconfig file."""
    found = Configuration()
    await load_kube_config(str(kubeconfig), client_configuration=found)
    return found
