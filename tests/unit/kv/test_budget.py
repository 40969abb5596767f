"""Memory that is in use at once."""

import asyncio

import pytest

from kindling_runtime.kv.budget import Budget


async def _turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_waits_gets_its_turn_in_order() -> None:
    budget, order = Budget(10), list[str]()

    async def use(name: str, count: int) -> None:
        await budget.take(count)
        order.append(name)

    await budget.take(6)
    tasks = [asyncio.create_task(use(name, count)) for name, count in (("a", 5), ("b", 1))]
    await _turn()
    assert order == []  # the small one does not overtake
    assert not budget.take_now(1)
    budget.give(6)
    await asyncio.gather(*tasks)
    assert order == ["a", "b"]
    assert (budget.used, budget.most) == (6, 6)


async def test_what_is_larger_than_all_of_it_is_let_in_alone() -> None:
    budget = Budget(10)
    await budget.take(1)
    big = asyncio.create_task(budget.take(25))
    await _turn()
    assert not big.done()
    budget.give(1)
    await big
    assert budget.used == 25
    assert not budget.take_now(1)


@pytest.mark.parametrize("when", ["waiting", "its turn"])
async def test_a_wait_that_is_given_up_takes_nothing(when: str) -> None:
    budget = Budget(10)
    await budget.take(10)
    given_up = asyncio.create_task(budget.take(10))
    after = asyncio.create_task(budget.take(3))
    await _turn()
    if when == "its turn":
        budget.give(10)
    given_up.cancel()
    await _turn()
    if when == "waiting":
        assert not after.done()
        budget.give(10)
    await after
    assert budget.used == 3
