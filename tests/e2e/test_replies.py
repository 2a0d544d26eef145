"""What a duplicate is answered."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.consumer import Says
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

XML = b"<xml><return_code>SUCCESS</return_code></xml>"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    fixed = {"status": 201, "content_type": "text/xml", "body": XML.decode()}
    yield await world.gateway(
        world.file(
            world.route(),
            world.route("replayed", duplicate_reply="replay"),
            world.route("fixed", duplicate_reply=fixed),
        )
    )


@pytest.mark.case("B020")
@pytest.mark.parametrize(
    ("content_type", "body"),
    [("text/plain", b"success"), ("text/xml", XML), ("application/json", b"[accepted]")],
)
async def test_a_replaying_route_gives_a_duplicate_what_the_first_got_also_after_a_restart(
    world: World, gateway: Gateway, content_type: str, body: bytes
) -> None:
    event = fresh()
    says = Says(status=202, headers=(("Content-Type", content_type),), body=body)
    world.consumer.script(event, says)
    first = await world.deliver(event, path="/hooks/replayed")
    second = await world.deliver(event, path="/hooks/replayed")
    await gateway.stop()
    await gateway.start()
    third = await world.deliver(event, path="/hooks/replayed")
    for reply in (first, second, third):
        assert (reply.status, reply.header("Content-Type"), reply.body) == (202, content_type, body)
    assert [reply.verdict for reply in (first, second, third)] == [
        "first",
        "duplicate",
        "duplicate",
    ]
    assert len(world.consumer.requests(event)) == 1


@pytest.mark.case("B020")
async def test_a_reply_too_large_to_keep_is_replaced_by_a_plain_success(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    world.consumer.script(event, Says(body=b"x" * (16 * 1024 + 1)))
    assert len((await world.deliver(event, path="/hooks/replayed")).body) == 16 * 1024 + 1
    again = await world.deliver(event, path="/hooks/replayed")
    assert (again.status, again.body) == (200, b'{"received": true, "duplicate": true}')
    await gateway.logged("reply_not_replayable", event_id=event)


@pytest.mark.case("B020")
async def test_a_route_may_say_what_its_duplicates_get(world: World, gateway: Gateway) -> None:
    event = fresh()
    await world.deliver(event, path="/hooks/fixed")
    again = await world.deliver(event, path="/hooks/fixed")
    assert (again.status, again.header("Content-Type"), again.body) == (201, "text/xml", XML)
    assert again.verdict == "duplicate"


async def test_a_duplicate_of_a_head_request_has_no_body_and_harms_no_connection(
    world: World, gateway: Gateway
) -> None:
    event = fresh()
    async with sender.Connection(gateway.address) as connection:
        for _ in range(2):
            reply = await connection.ask(sender.event(event))
            assert reply.status == 200
        head = await connection.ask(
            sender.request("/hooks/orders", method="HEAD", headers=[("X-Rig", "head")])
        )
        assert (head.status, head.body) == (200, b"")
        assert (await connection.ask(sender.event(event))).verdict == "duplicate"
