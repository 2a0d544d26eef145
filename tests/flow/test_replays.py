"""First replies that are repeated: what is not kept, and what their absence costs."""

from __future__ import annotations

import pytest

from gateway.core.answer import Duplicate, Verdict
from gateway.core.claim import StoreAway
from gateway.core.outcome import Delivered
from gateway.core.route import FixedReply, ReplayReply
from tests.flow.consumer import reply, says
from tests.flow.world import MakeWorld, World, forwarded

PLAIN = Duplicate(ReplayReply(), None)


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    return make_world(duplicate_reply=ReplayReply())


async def away(*_: object, **__: object) -> None:
    raise StoreAway("no room in the replies table")


async def test_a_reply_that_broke_off_is_not_repeated(world: World) -> None:
    world.consumer.answers(Delivered(reply(200)._replace(complete=False)))
    await world.deliver()
    assert await world.deliver() == PLAIN


async def test_a_reply_of_just_the_length_that_is_kept_is_repeated(world: World) -> None:
    world.consumer.answers(says(299, b"x" * 16 * 1024))
    await world.deliver()
    again = await world.deliver()
    assert again == Duplicate(ReplayReply(), reply(299, b"x" * 16 * 1024))


async def test_a_reply_that_could_not_be_kept_costs_the_first_delivery_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.replies, "keep", away)
    assert forwarded(await world.deliver()).verdict is Verdict.FIRST
    assert await world.deliver() == PLAIN


async def test_a_reply_that_could_not_be_read_gives_a_plain_duplicate(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.deliver()
    monkeypatch.setattr(world.replies, "recall", away)
    assert await world.deliver() == PLAIN


async def test_the_first_reply_is_replayed_where_the_route_says_so(world: World) -> None:
    world.consumer.answers(says(200, b"<xml>SUCCESS</xml>"))
    await world.deliver()
    answer = await world.deliver()
    assert isinstance(answer, Duplicate)
    assert answer.kept is not None
    assert answer.kept.body == b"<xml>SUCCESS</xml>"


async def test_a_reply_too_long_to_keep_gives_a_plain_duplicate(world: World) -> None:
    world.consumer.answers(says(200, b"x" * (16 * 1024 + 1)))
    await world.deliver()
    assert await world.deliver() == PLAIN


async def test_a_fixed_reply_comes_from_the_route(make_world: MakeWorld) -> None:
    fixed = FixedReply(200, "text/plain", b"[accepted]")
    world = make_world(duplicate_reply=fixed)
    await world.deliver()
    assert await world.deliver() == Duplicate(fixed, None)
