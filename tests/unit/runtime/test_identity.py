"""Whom a pod is to a cloud, what is refused, and what of a refusal is told."""

from collections.abc import Mapping

import pytest

from kindling_runtime.objectstore import identity
from kindling_runtime.weights.objects import without_folders
from kindling_runtime.weights.parts import RemoteFile

IRSA = {"AWS_ROLE_ARN": "arn:role", "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}
AKS = {"AZURE_CLIENT_ID": "client", "AZURE_FEDERATED_TOKEN_FILE": "/token"}


@pytest.mark.parametrize(
    ("scheme", "environment"),
    [
        ("s3", IRSA),
        ("s3", {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials"}),
        ("gs", {}),
        ("az", AKS),
        ("s3", {"KINDLING_DEVELOPMENT_STORE": "true", "AWS_ACCESS_KEY_ID": "AKIA"}),
    ],
)
def test_what_a_service_account_is_given_is_used(
    scheme: str, environment: Mapping[str, str]
) -> None:
    assert identity.refusal("uri", scheme, environment) is None


@pytest.mark.parametrize(
    ("scheme", "name", "beside"),
    [
        ("s3", "AWS_ACCESS_KEY_ID", IRSA),
        ("s3", "AWS_SECRET_ACCESS_KEY", {}),
        ("gs", "GOOGLE_APPLICATION_CREDENTIALS", {}),
        ("gs", "GOOGLE_SERVICE_ACCOUNT_KEY", {}),
        ("az", "AZURE_STORAGE_ACCOUNT_KEY", AKS),
        ("az", "AZURE_CLIENT_SECRET", AKS),
    ],
)
def test_keys_that_were_written_down_are_refused_whatever_else_there_is(
    scheme: str, name: str, beside: Mapping[str, str]
) -> None:
    told = identity.refusal("s3://a/b", scheme, {**beside, name: "the key"})
    assert told == (
        f"s3://a/b is not asked with the static credentials of {name}; take them out of the pod, "
        "and give its ServiceAccount the right to read it"
    )


@pytest.mark.parametrize("scheme", ["s3", "az"])
def test_a_pod_without_an_identity_does_not_use_that_of_its_node(scheme: str) -> None:
    told = identity.refusal("s3://a/b", scheme, {"AWS_ROLE_ARN": "", "AZURE_CLIENT_ID": ""})
    assert told is not None
    assert told.startswith("the pod has no identity for s3://a/b: none of A")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "status code: 403 Forbidden: <Error><Code>SignatureDoesNotMatch</Code><Message>The "
            "signature does not match.</Message><AWSAccessKeyId>AKIA</AWSAccessKeyId>"
            "<StringToSign>secret</StringToSign></Error>",
            "SignatureDoesNotMatch: The signature does not match.",
        ),
        (
            'status code: 401 Unauthorized: {"error": "invalid_client", "error_description": '
            '"AADSTS1: No.", "trace_id": "1"}',
            "AADSTS1: No.",
        ),
        ("status code: 400 Bad Request: [1]: refused\n\nDebug source:\nmore", "[1]: refused"),
        ("status code: 503 Service Unavailable: \n\nDebug source:\nm", "503 Service Unavailable"),
        ("no status at all", "no status at all"),
    ],
)
def test_of_a_refusal_its_code_and_words_are_told_and_nothing_else(text: str, told: str) -> None:
    assert identity.said(text) == told


def test_empty_objects_that_are_folders_are_no_files() -> None:
    listed = [
        RemoteFile("", 0),
        RemoteFile("sub", 0),
        RemoteFile("sub/deep", 0),
        RemoteFile("sub/deep/file", 1),
        RemoteFile("sub/empty", 0),
        RemoteFile("subs", 0),
    ]
    paths = [file.path for file in without_folders(listed)]
    assert paths == ["sub/deep/file", "sub/empty", "subs"]
