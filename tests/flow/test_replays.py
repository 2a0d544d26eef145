"""First replies that are repeated: what is not kept, and what their absence costs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.core.answer import Duplicate, Verdict
from gateway.core.claim import StoreAway
from gateway.core.outcome import Delivered
from gateway.core.route import ReplayReply
from tests.flow.world import World, reply, says

PLAIN = Duplicate(ReplayReply(), None)


@pytest.fixture
async def world(make_world: Callable[..., World]) -> World:
    return make_world(duplicate_reply=ReplayReply())


async def away(*_: object) -> None:
    raise StoreAway("no room in the replies table")


async def test_a_reply_that_broke_off_is_not_repeated(world):
    world.consumer.answers(Delivered(reply(200)._replace(complete=False)))
    await world.deliver()
    assert await world.deliver() == PLAIN


async def test_a_reply_of_just_the_length_that_is_kept_is_repeated(world):
    world.consumer.answers(says(299, b"x" * 16 * 1024))
    await world.deliver()
    assert (await world.deliver()).kept == reply(299, b"x" * 16 * 1024)


async def test_a_reply_that_could_not_be_kept_costs_the_first_delivery_nothing(world):
    world.replies.keep = away
    assert (await world.deliver()).verdict is Verdict.FIRST
    assert await world.deliver() == PLAIN


async def test_a_reply_that_could_not_be_read_gives_a_plain_duplicate(world):
    await world.deliver()
    world.replies.recall = away
    assert await world.deliver() == PLAIN
