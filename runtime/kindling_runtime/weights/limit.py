"""The limit of the cache at this moment, which the environment of the fetch says."""

from collections.abc import Mapping

import msgspec

from kindling_runtime.contract import CACHE_LIMIT_VARIABLE, ContractError, LaunchPlan


def limited(plan: LaunchPlan, environment: Mapping[str, str]) -> LaunchPlan:
    """The plan with this moment's limit in the place of its own; raises ContractError for one that
    is no number of bytes."""
    said, fetch = environment.get(CACHE_LIMIT_VARIABLE, ""), plan.weights.fetch
    if not said or fetch is None:
        return plan
    if not said.isascii() or not said.isdecimal():
        raise ContractError(
            f"{CACHE_LIMIT_VARIABLE} is {said[:40]!r}, which is no number of bytes; have the "
            "operator render it"
        )
    fetch = msgspec.structs.replace(fetch, budget_bytes=int(said))
    weights = msgspec.structs.replace(plan.weights, fetch=fetch)
    return msgspec.structs.replace(plan, weights=weights)
