"""Which deliveries are the same event: ids in every place, shape and size."""

from __future__ import annotations

import json
import random
import string
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from tests.rig import sender
from tests.rig.gateway import Gateway
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    yield await world.gateway(
        world.file(
            world.route(),
            world.route("gh", event_id="header:X-GitHub-Delivery"),
            world.route("sns", event_id="json:/MessageId"),
            world.route("sms", event_id="header:x-amz-sns-message-id | json:/MessageId"),
            world.route("ipn", event_id=["form:txn_id", "form:payment_status"]),
            world.route("adyen", scope="json:/merchantAccount"),
            world.route("strict", missing_id="refuse"),
        )
    )


def raw(path: str, body: bytes, rig: str, *headers: tuple[str, str]) -> bytes:
    return sender.request(path, body, headers=[("X-Rig", rig), *headers])


async def verdicts(gateway: Gateway, *requests: bytes) -> list[str | None]:
    replies = [await gateway.send(request) for request in requests]
    assert {reply.status for reply in replies} == {200}
    return [reply.verdict for reply in replies]


@pytest.mark.case("B021")
@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain; charset=UTF-8",
        None,
        "application/vnd.acme.v2+json",
        "APPLICATION/JSON",
        "application/x-www-form-urlencoded",
    ],
)
@pytest.mark.parametrize("kind", ["Notification", "SubscriptionConfirmation"])
async def test_json_is_found_whatever_the_content_type_says(
    world: World, gateway: Gateway, content_type: str | None, kind: str
) -> None:
    event = fresh("m")
    body = json.dumps({"Type": kind, "MessageId": event, "Message": "{}"}).encode()
    headers = [("Content-Type", content_type)] if content_type else []
    request = raw("/hooks/sns", body, event, *headers)
    assert await verdicts(gateway, request, request) == ["first", "duplicate"]
    (received,) = world.consumer.requests(event)
    assert received.header("Content-Type") == content_type


@pytest.mark.case("B021")
async def test_the_first_location_that_is_present_gives_the_id(
    world: World, gateway: Gateway
) -> None:
    event = fresh("m")
    body = json.dumps({"MessageId": event}).encode()
    by_body = raw("/hooks/sms", body, event)
    by_header = raw("/hooks/sms", b"{}", event, ("x-amz-sns-message-id", event))
    assert await verdicts(gateway, by_body, by_header) == ["first", "duplicate"]


@pytest.mark.case("B022")
async def test_one_transaction_lives_through_many_states_and_each_is_an_event(
    world: World, gateway: Gateway
) -> None:
    event = fresh("T")

    def form(status: str) -> bytes:
        body = f"txn_id={event}&payment_status={status}&item=a+b%26c".encode()
        return raw("/hooks/ipn", body, event, ("Content-Type", "application/x-www-form-urlencoded"))

    sent = [form(status) for status in ("Pending", "Completed", "Pending", "Completed", "Pending")]
    told = await verdicts(gateway, *sent)
    assert told == ["first", "first", "duplicate", "duplicate", "duplicate"]
    assert [request.body for request in world.consumer.requests(event)] == [
        f"txn_id={event}&payment_status=Pending&item=a+b%26c".encode(),
        f"txn_id={event}&payment_status=Completed&item=a+b%26c".encode(),
    ]


@pytest.mark.case("B022")
async def test_parts_of_a_composite_do_not_run_into_one_another(
    world: World, gateway: Gateway
) -> None:
    event = fresh("parts")
    bodies = [f"txn_id={event}a&payment_status=bc", f"txn_id={event}ab&payment_status=c"]
    requests = [raw("/hooks/ipn", body.encode(), event) for body in bodies]
    assert await verdicts(gateway, *requests) == ["first", "first"]
    incomplete = raw("/hooks/ipn", f"txn_id={event}".encode(), event)
    assert await verdicts(gateway, incomplete, incomplete) == ["unkeyed", "unkeyed"]
    assert len(world.consumer.requests(event)) == 4


@pytest.mark.case("B023")
async def test_an_id_is_unique_only_inside_its_scope(world: World, gateway: Gateway) -> None:
    event = fresh("report_batch") + ".csv"

    def adyen(account: str) -> bytes:
        return sender.event(event, "/hooks/adyen", merchantAccount=account)

    header = raw("/hooks/gh", b"{}", event, ("X-GitHub-Delivery", event))
    told = await verdicts(
        gateway, sender.event(event), header, adyen("A"), adyen("B"), adyen("A"), adyen("B")
    )
    assert told == ["first"] * 4 + ["duplicate"] * 2
    assert len(world.consumer.requests(event)) == 4


@pytest.mark.case("B024")
async def test_big_integers_are_exact_and_a_number_is_the_same_id_as_its_text(
    world: World, gateway: Gateway
) -> None:
    def numbered(literal: str) -> bytes:
        return raw("/hooks/orders", b'{"event_id":%s}' % literal.encode(), "numbers")

    big = ["9007199254740992", "9007199254740993", "9007199254740994", "9" * 5000]
    assert await verdicts(gateway, *map(numbered, big)) == ["first"] * 4
    assert await verdicts(gateway, *map(numbered, big)) == ["duplicate"] * 4
    assert await verdicts(gateway, numbered("7"), numbered('"7"')) == ["first", "duplicate"]
    assert await verdicts(gateway, numbered("-0"), numbered("0")) == ["first", "duplicate"]
    for odd in ("7.0", "1e2", "true", "null", "[1]", '{"a":1}', "NaN"):
        assert await verdicts(gateway, numbered(odd), numbered(odd)) == ["unkeyed", "unkeyed"]


NO_ID: dict[str, bytes] = {
    "no member": b'{"type":"ping"}',
    "empty": b'{"event_id":""}',
    "blank": b'{"event_id":"   "}',
    "no body": b"",
    "no JSON": b"ping",
    "a repeated member": b'{"event_id":"a","event_id":"b"}',
}


@pytest.mark.case("B025")
@pytest.mark.row(5)
@pytest.mark.parametrize("name", NO_ID)
async def test_without_an_id_every_delivery_is_forwarded_and_counted(
    world: World, gateway: Gateway, name: str
) -> None:
    rig, before, claims = fresh("none"), await gateway.scrape(), await world.database.count()
    request = raw("/hooks/orders", NO_ID[name], rig)
    assert await verdicts(gateway, request, request) == ["unkeyed", "unkeyed"]
    received = world.consumer.requests(rig)
    assert [request.body for request in received] == [NO_ID[name]] * 2
    assert not any(request.values("Dedup-Event-Id") for request in received)
    after = await gateway.scrape()
    assert after.since(before, "dedup_deliveries_total", route="orders", verdict="unkeyed") == 2
    assert await world.database.count() == claims


@pytest.mark.case("B025")
async def test_two_events_without_an_id_do_not_share_a_key(world: World, gateway: Gateway) -> None:
    rig = fresh("none")
    requests = [raw("/hooks/gh", body, rig) for body in (b"{}", b"{}", b'{"other":1}')]
    assert await verdicts(gateway, *requests) == ["unkeyed"] * 3
    assert len(world.consumer.requests(rig)) == 3


@pytest.mark.case("B025")
@pytest.mark.row(5)
@pytest.mark.parametrize("name", NO_ID)
async def test_a_route_may_refuse_what_has_no_id(world: World, gateway: Gateway, name: str) -> None:
    rig, before = fresh("none"), await gateway.scrape()
    reply = await gateway.send(raw("/hooks/strict", NO_ID[name], rig))
    assert reply.status == 400
    assert not world.consumer.requests(rig)
    after = await gateway.scrape()
    assert after.since(before, "dedup_rejected_total", route="strict", reason="missing_id") == 1


@pytest.mark.row(5)
@pytest.mark.parametrize(
    "lines",
    [
        [b"X-GitHub-Delivery: one", b"x-github-delivery: two"],
        [b"X-GitHub-Delivery: evt\xff1"],
        [b"X-GitHub-Delivery: one", b"X_GitHub_Delivery: one"],
    ],
    ids=["two values", "not UTF-8", "underscore spelling"],
)
async def test_an_id_that_two_readers_could_read_differently_is_refused(
    world: World, gateway: Gateway, lines: list[bytes]
) -> None:
    before, seen = await gateway.scrape(), len(world.consumer.received)
    head = [b"POST /hooks/gh HTTP/1.1", b"Host: a", *lines, b"Content-Length: 0", b"", b""]
    reply = await gateway.send(b"\r\n".join(head))
    assert reply.status == 400
    assert len(world.consumer.received) == seen
    assert (await gateway.scrape()).since(before, "dedup_rejected_total", route="gh") == 1


def random_id(length: int) -> str:
    """Random, because a repeated letter compresses and would fit where no real id does."""
    return "".join(random.Random(length).choices(string.ascii_letters + string.digits, k=length))


@pytest.mark.case("B027")
@pytest.mark.row(5)
@pytest.mark.parametrize(
    "make",
    [
        lambda: random_id(2600),
        lambda: random_id(2700),
        lambda: random_id(10_000),
        lambda: fresh() + "a\u0000b",
        lambda: fresh() + "ünï—😀",
        lambda: fresh() + "\ud800",
        lambda: fresh() + " trailing ",
    ],
    ids=["2600", "2700", "10000", "NUL", "unicode", "lone surrogate", "trailing space"],
)
async def test_ids_that_no_index_could_hold_are_deduplicated_all_the_same(
    world: World, gateway: Gateway, make: Callable[[], str]
) -> None:
    event, rig = make(), fresh("odd")
    body = json.dumps({"event_id": event}).encode()
    request = raw("/hooks/orders", body, rig)
    assert await verdicts(gateway, request, request) == ["first", "duplicate"]
    assert len(world.consumer.requests(rig)) == 1


@pytest.mark.case("B027")
async def test_ids_that_differ_only_in_their_last_character_differ(
    world: World, gateway: Gateway
) -> None:
    stem, rig = random_id(4999), fresh("long")
    requests = [
        raw("/hooks/orders", json.dumps({"event_id": stem + end}).encode(), rig) for end in "ab"
    ]
    assert await verdicts(gateway, *requests, *requests) == ["first", "first"] + ["duplicate"] * 2
    assert len(world.consumer.requests(rig)) == 2
