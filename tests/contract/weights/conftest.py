"""Real object stores, each started when a test first asks for it."""

from tests.support.stores.fixtures import store_of

__all__ = ["store_of"]
