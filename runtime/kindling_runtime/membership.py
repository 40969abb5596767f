"""Which pod of a group this one is."""

import dataclasses
from collections.abc import Mapping

from kindling_runtime import peers
from kindling_runtime.contract import (
    LEADER_PLACEHOLDER,
    LEADER_VARIABLE,
    RANK_VARIABLE,
    ContractError,
    Engine,
    Group,
    LaunchPlan,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One pod of `group`; `leader` is the name under which the first of them is found."""

    group: Group
    rank: int
    leader: str

    @property
    def leads(self) -> bool:
        """Whether the others come to this pod."""
        return self.rank == 0

    @property
    def serves(self) -> bool:
        """Whether its engine answers requests."""
        return self.group.ranks[self.rank].serves

    def engine(self, engine: Engine, *, leader: str) -> tuple[str, ...]:
        """The whole command of this rank; `leader` is the leader's address."""
        own = self.group.ranks[self.rank].argv
        return (*engine.argv, *(item.replace(LEADER_PLACEHOLDER, leader) for item in own))


def member_of(plan: LaunchPlan, environment: Mapping[str, str]) -> Member | None:
    """The pod's place in its group, None without one; raises ContractError if nobody tells it, and
    where the others have neither names nor this host in common: nobody could tell them apart from
    strangers."""
    if plan.group is None:
        return None
    size = len(plan.group.ranks)
    rank, leader = environment.get(RANK_VARIABLE, ""), environment.get(LEADER_VARIABLE, "")
    if not rank.isdecimal() or int(rank) >= size or not leader:
        raise ContractError(
            f"the launch plan is for a group of {size} pods, and {RANK_VARIABLE} is {rank!r} and "
            f"{LEADER_VARIABLE} is {leader!r} here; run it as LeaderWorkerSet of that size"
        )
    if not (peers.has_names(leader) or peers.on_this_host(leader)):
        raise ContractError(
            f"{LEADER_VARIABLE} is {leader!r} here, by which the other pods of the group have no "
            "names; run it as LeaderWorkerSet, which gives it as POD.SUBDOMAIN.NAMESPACE"
        )
    return Member(plan.group, int(rank), leader)
