"""Where the API server is and who we are, as the official client reads it."""

import os
from typing import Final

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import load_incluster_config, load_kube_config

KUBECONFIG_VARIABLE: Final = "KUBECONFIG"


async def configuration() -> Configuration:
    """The service account in a cluster (its token is read again every minute), else KUBECONFIG.

    An explicit KUBECONFIG wins, so that a process in a pod can be pointed elsewhere.
    Raises kubernetes' ConfigException where there is neither.
    """
    found = Configuration()
    path = os.environ.get(KUBECONFIG_VARIABLE)
    if path:
        await load_kube_config(path, client_configuration=found, persist_config=False)
    else:
        load_incluster_config(client_configuration=found)
    return found
