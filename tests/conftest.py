"""For all tests: how many examples hypothesis tries."""

from hypothesis import settings
from tests.support.examples import examples

settings.register_profile("kindling", examples())
settings.load_profile("kindling")
