"""For all tests: how many examples hypothesis tries, and who writes the table of faults."""

import pytest
from hypothesis import settings
from tests.support import faultpage
from tests.support.examples import examples
from tests.support.faultpage import fault

__all__ = ["fault"]

settings.register_profile("kindling", examples())
settings.load_profile("kindling")


def pytest_configure(config: pytest.Config) -> None:
    """As `make faults` asks."""
    faultpage.configure(config)
