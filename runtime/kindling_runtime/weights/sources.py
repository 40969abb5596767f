"""Which kind of source a URI names."""

from kindling_runtime.contract import Reason
from kindling_runtime.weights.errors import FetchError
from kindling_runtime.weights.joined import Joined
from kindling_runtime.weights.store import Store


def store_of(
    uri: str, revision: str, *, config_uri: str | None = None, config_revision: str = ""
) -> Store:
    """The source, with config and tokenizer of another one where `config_uri` names it; raises
    FetchError for one that nothing is fetched from."""
    store = _store_of(uri, revision)
    if config_uri is None:
        return store
    config = _store_of(config_uri, config_revision)
    return Joined(store, config, uri=uri, config_uri=config_uri)


def _store_of(uri: str, revision: str) -> Store:
    # Libraries are imported here, because a fetch that finds everything in the cache needs none.
    scheme = uri.partition("://")[0]
    if scheme == "hf":
        from kindling_runtime.weights.hub import Hub

        return Hub(uri, revision)
    if scheme in ("s3", "gs", "az"):
        from kindling_runtime.weights.objects import Objects

        return Objects(uri)
    raise FetchError(
        Reason.CONTRACT_REFUSED,
        f"nothing can be fetched from {uri}; use hf://, s3://, gs:// or az://",
    )
