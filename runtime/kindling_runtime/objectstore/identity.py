"""Who the pod is to a cloud, as far as its environment tells: pure, over names and values.

Only what a ServiceAccount was given counts. Keys that someone wrote down are refused, and so is the
node's own identity, which obstore would fall back to on AWS and Azure: it is that of every pod.
The names are those that obstore 0.12.1 reads (object_store 0.14.2: aws/builder.rs, gcp/builder.rs,
azure/builder.rs).
"""

import re
from collections.abc import Mapping
from typing import Final

from kindling_runtime.objectstore.words import short

DEVELOPMENT: Final = "KINDLING_DEVELOPMENT_STORE"
"""The switch that lets written-down keys be used, as in the operator: "true"."""

_WRITTEN_DOWN: Final = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN"),
    "gs": (
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_BEARER_TOKEN",
    ),
    "az": (
        "AZURE_CLIENT_SECRET",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_MASTER_KEY",
        "AZURE_STORAGE_CLIENT_SECRET",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TOKEN",
    ),
}
_GIVEN: Final = {
    "s3": (
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    ),
    "gs": (),  # GKE's metadata server knows the pod by its address
    "az": ("AZURE_FEDERATED_TOKEN_FILE",),
}
_HOW: Final = {
    "s3": "a role by IRSA or EKS Pod Identity",
    "az": "a client ID of Azure workload identity",
}
_TRUST: Final = {
    "s3": "let the role's trust policy, or the Pod Identity association, name the cluster and the "
    "pod's ServiceAccount",
    "gs": "let the pod's ServiceAccount use the service account that it is annotated with",
    "az": "give the identity a federated credential for the cluster's issuer and the pod's "
    "ServiceAccount",
}
_CLOUD: Final = {"s3": "AWS", "gs": "Google Cloud", "az": "Microsoft Entra ID"}

_XML_CODE: Final = re.compile(r"<Code>\s*([^<]+?)\s*</Code>")
_XML_MESSAGE: Final = re.compile(r"<Message>\s*([^<\n]+)")
_JSON_MESSAGE: Final = re.compile(r'"error_description"\s*:\s*"([^"]+)"')
_STATUS: Final = re.compile(r"status code: (\d{3}[^:\n]*)")
_BODY: Final = re.compile(r"status code: \d{3}[^:]*: (.+)", re.DOTALL)


def refusal(uri: str, scheme: str, environment: Mapping[str, str]) -> str | None:
    """Why what the pod has is not to be used, as a sentence; None where it is."""
    if environment.get(DEVELOPMENT) == "true":
        return None
    for name in _WRITTEN_DOWN[scheme]:
        if environment.get(name):
            return (
                f"{uri} is not asked with the static credentials of {name}; take them out of the "
                "pod, and give its ServiceAccount the right to read it"
            )
    if _GIVEN[scheme] and not any(environment.get(name) for name in _GIVEN[scheme]):
        return (
            f"the pod has no identity for {uri}: none of {', '.join(_GIVEN[scheme])} is set; give "
            f"its ServiceAccount {_HOW[scheme]}"
        )
    return None


def named(scheme: str, environment: Mapping[str, str]) -> str:
    """Whose right is meant, as far as the environment tells: " NAME", or ""."""
    name = {"s3": "AWS_ROLE_ARN", "az": "AZURE_CLIENT_ID"}.get(scheme)
    value = environment.get(name, "") if name else ""
    return f" {value}" if value else ""


def token_refused(scheme: str, said: str, environment: Mapping[str, str]) -> str:
    """The sentence for a token service that gives no credentials; `said` is its reason."""
    return (
        f"{_CLOUD[scheme]} refuses the pod's identity{named(scheme, environment)} ({said}); "
        f"{_TRUST[scheme]}"
    )


def from_token_service(text: str, environment: Mapping[str, str]) -> bool:
    """Whether an error of obstore is that of a token service, not of a store.

    A download asks stores by GET and HEAD alone, STS by POST.
    """
    agent = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
    return (
        "Error performing token request" in text
        or "Error performing POST" in text
        or bool(agent and f"Error performing GET {agent}" in text)
    )


def said(text: str) -> str:
    """The code and the words in the body of a refusal; of another text, its beginning."""
    found = [
        match[1]
        for pattern in (_XML_CODE, _XML_MESSAGE, _JSON_MESSAGE)
        if (match := pattern.search(text))
    ]
    if found:
        return short(": ".join(found))
    first = text.partition("Debug source:")[0]
    body, status = _BODY.search(first), _STATUS.search(first)
    if body is not None and body[1].strip():
        return short(body[1])
    return short(status[1] if status else text)  # the answer to a HEAD has no body
