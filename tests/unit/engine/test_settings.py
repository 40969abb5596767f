"""Settings from the environment, and the sentence for each that cannot be used."""

import kopf
import pytest

from kindling_operator.settings import Settings, SettingsError, configure_kopf

ENOUGH = {
    "KINDLING_CUDA_IMAGE": "cuda",
    "KINDLING_CPU_IMAGE": "cpu",
    "KINDLING_POD_NAME": "operator-0",
    "KINDLING_POD_NAMESPACE": "kindling-system",
}


def settings(**variables: str) -> Settings:
    return Settings.from_environment(
        ENOUGH | {f"KINDLING_{name}": value for name, value in variables.items()}
    )


def test_the_images_are_enough() -> None:
    found = settings()

    assert (found.cuda_image, found.cpu_image) == ("cuda", "cpu")
    assert (found.lease_duration, found.renew_deadline, found.retry_period) == (15, 10, 2)
    assert found.namespaces == ()


def test_every_kind_of_value_is_read() -> None:
    found = settings(
        IMAGE_PULL_SECRETS="one, two,",
        NAME_FOREIGN_HOLDERS="true",
        LEASE_DURATION="1m30s",
        WORKERS="8",
        LOG_LEVEL="DEBUG",
    )

    assert found.image_pull_secrets == ("one", "two")
    assert found.name_foreign_holders
    assert found.lease_duration == 90
    assert (found.workers, found.log_level) == (8, "DEBUG")


def test_the_operators_own_namespace_is_always_watched() -> None:
    assert settings(WATCH_NAMESPACES="ml,dev").namespaces == ("dev", "kindling-system", "ml")


def test_two_processes_of_one_pod_have_two_identities() -> None:
    one, other = settings().tuning().identity, settings().tuning().identity

    assert one.startswith("operator-0_")
    assert one != other


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "CUDA_IMAGE",
            "",
            "KINDLING_CUDA_IMAGE is not set: set it to the runtime image that the operator should"
            " start.",
        ),
        (
            "IMAGE_PULL_POLICY",
            "Sometimes",
            "KINDLING_IMAGE_PULL_POLICY is 'Sometimes': set it to Always, IfNotPresent or Never.",
        ),
        (
            "DEVELOPMENT_STORE",
            "yes",
            "KINDLING_DEVELOPMENT_STORE is 'yes': set it to true or false.",
        ),
        (
            "RUNTIMES",
            "[{name: mine}]",
            "KINDLING_RUNTIMES: runtimes: Object missing required field `device` - at `$[0]`.",
        ),
        (
            "CACHE_MAX_BYTES",
            "2 TB",
            "KINDLING_CACHE_MAX_BYTES is '2 TB': set it to an amount with its unit, such as 2Ti.",
        ),
        ("WORKERS", "many", "KINDLING_WORKERS is 'many': set it to a whole number."),
        ("WORKERS", "0", "KINDLING_WORKERS is 0: set it to 1 to 64."),
        (
            "AUDIT_INTERVAL",
            "60",
            "KINDLING_AUDIT_INTERVAL: '60' is not a duration; write hours, minutes and seconds,"
            " such as 1h30m.",
        ),
        (
            "RENEW_DEADLINE",
            "20s",
            "KINDLING_RENEW_DEADLINE is 20s: set it to less than LEASE_DURATION (15s) and at least"
            " twice RETRY_PERIOD (2s).",
        ),
        (
            "LOG_LEVEL",
            "loud",
            "KINDLING_LOG_LEVEL is 'loud': set it to one of DEBUG, INFO, WARNING, ERROR.",
        ),
    ],
)
def test_a_wrong_value_ends_in_one_sentence(name: str, value: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(**{name: value})

    assert str(caught.value) == sentence


def knobs(minor: int = 37) -> kopf.OperatorSettings:
    made = kopf.OperatorSettings()
    configure_kopf(made, settings(), server_minor=minor)
    return made


def test_kopf_is_an_informer_and_nothing_else() -> None:
    made = knobs()

    assert made.peering.standalone
    assert not made.posting.enabled
    assert made.scanning.disabled
    assert made.queueing.worker_limit is None
    assert made.watching.chunk_size is None


@pytest.mark.parametrize(("minor", "streams"), [(33, False), (34, True), (37, True)])
def test_initial_lists_are_streamed_where_the_api_server_does_that(
    minor: int, streams: bool
) -> None:
    assert knobs(minor).watching.initial_streaming is streams
