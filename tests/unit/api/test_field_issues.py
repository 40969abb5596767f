"""What went wrong elsewhere with fields that nobody read before a pod did."""

from typing import Any

import pytest
from tests.support.builders import parsed
from tests.support.refusals import store

from kindling_operator.model.parse import Invalid

_ARN = "write the role's ARN, such as arn:aws:iam::123456789012:role/kv-cache"
_UUID = "write a UUID, such as 11111111-2222-3333-4444-555555555555"
_EMAIL = "write the service account's e-mail, such as kv@project.iam.gserviceaccount.com"
GIVEN = "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize(
    ("uri", "identity", "sentence"),
    [
        # kserve/kserve#3482: `role-arn:: …` in an annotation gave the role a colon.
        ("s3://kv", {"aws": {"roleArn": ": arn:aws:iam::123456789012:role/kv"}}, _ARN),
        ("s3://kv", {"aws": {"roleArn": "arn:aws:iam:123456789012:role/kv"}}, _ARN),
        ("s3://kv", {"aws": {"roleArn": "arn:aws:iam::12345678901:role/kv"}}, _ARN),
        ("s3://kv", {"aws": {"roleArn": "arn:aws:s3::123456789012:role/kv"}}, _ARN),
        # kserve/kserve#2439: the account of another kind, which the metadata server does not know.
        ("gs://kv", {"gcp": {"serviceAccount": "kv@developer.gserviceaccount.com"}}, _EMAIL),
        ("gs://kv", {"gcp": {"serviceAccount": "ml/kv"}}, _EMAIL),
        ("az://kv", {"azure": {"clientId": "kv", "tenantId": GIVEN}}, _UUID),
    ],
)
def test_an_identity_with_a_typo_is_refused_before_anything_runs_as_it(
    uri: str, identity: dict[str, Any], sentence: str
) -> None:
    found = parsed(store(uri, identity))

    assert isinstance(found, Invalid)
    assert found.message.endswith(f": {sentence}.")
    assert found.message.startswith("spec.cache.objectStore.identity.")
