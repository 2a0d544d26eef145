"""What a worker does after an attempt that failed, by the consumer's clock."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.rig.consumer import OK, Says
from tests.rig.gateway import Gateway, run
from tests.rig.settings import Settings
from tests.rig.world import Entry, World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

BASE, CAP = 0.4, 2.0
# Of a pause, at least; the rest is jitter.
LEAST = 0.5
TOO_OLD = Says(status=401, body=b'{"error":"timestamp outside the tolerance"}')
LATER = Says(status=429, headers=(("Retry-After", "1"),))
MUCH_LATER = Says(status=503, headers=(("Retry-After", "3600"),))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(world: World) -> AsyncIterator[Gateway]:
    def inbox(name: str, give_up: str) -> Settings:
        retry = {"base": f"{BASE}s", "cap": f"{CAP}s", "give_up": give_up}
        upstream = {"timeout": "500ms", "concurrency": 8}
        return world.route(name, mode="inbox", retry=retry, upstream=upstream)

    yield await world.gateway(world.file(inbox("orders", "1h"), inbox("hopeless", f"{CAP}s")))


def pauses(world: World, event: str) -> list[float]:
    """Seconds between one attempt and the next, as the consumer saw them."""
    times = [request.at for request in world.consumer.requests(event)]
    return [later - earlier for earlier, later in itertools.pairwise(times)]


@pytest.mark.row(82)
@pytest.mark.parametrize(
    "failure",
    [
        Says(acts="before", hangs_up="unanswered"),
        Says(acts="never", hangs_up="unanswered", resets=True),
        Says(acts="before", delay=1.0),
        Says(acts="never", hangs_up="mid_head"),
    ],
    ids=["hangs up", "resets", "times out", "breaks off"],
)
async def test_what_may_have_had_its_effect_is_sent_again_marked_after_growing_pauses(
    world: World, gateway: Gateway, failure: Says
) -> None:
    event = fresh("doubt")
    world.consumer.script(event, failure, failure, OK)
    assert (await world.deliver(event)).verdict == "first"
    await world.database.entry_becomes(event, "delivered")
    assert world.attempts(event) == [(1, False), (2, True), (3, True)]
    first, second = pauses(world, event)
    assert first >= BASE * LEAST
    assert second >= 2 * BASE * LEAST


@pytest.mark.row(84)
async def test_a_consumer_that_says_when_is_asked_no_sooner_and_its_word_leaves_no_doubt(
    world: World, gateway: Gateway
) -> None:
    event = fresh("later")
    world.consumer.script(event, LATER, OK)
    await world.deliver(event)
    await world.database.entry_becomes(event, "delivered")
    assert world.attempts(event) == [(1, False), (2, False)]
    assert pauses(world, event)[0] >= 1.0


@pytest.mark.row(84)
async def test_a_consumer_that_says_tomorrow_is_asked_again_within_the_cap(
    world: World, gateway: Gateway
) -> None:
    event = fresh("tomorrow")
    world.consumer.script(event, MUCH_LATER, OK)
    await world.deliver(event)
    await world.database.entry_becomes(event, "delivered")
    assert pauses(world, event)[0] >= CAP


@pytest.mark.row(83, 92)
@pytest.mark.parametrize("refusal", [Says(status=400), TOO_OLD], ids=["400", "401"])
async def test_what_the_consumer_refuses_for_good_ends_dead_with_its_reason_and_its_payload(
    world: World, gateway: Gateway, refusal: Says
) -> None:
    event = fresh("refused")
    world.consumer.script(event, refusal)
    assert (await world.deliver(event, path="/hooks/hopeless")).verdict == "first"
    dead = await world.database.entry_becomes(event, "dead")
    attempts = world.attempts(event)
    assert len(attempts) > 1
    assert not any(marked for _, marked in attempts)
    assert dead == Entry("dead", False, len(attempts), f"refused {refusal.status}")
    assert await body_of(world, event)
    before = await gateway.scrape()
    # Whoever sends it again gets what a stored event gets; the consumer gets one more chance.
    world.consumer.script(event, *[refusal] * len(attempts), OK)
    assert (await world.deliver(event, path="/hooks/hopeless")).verdict == "duplicate"
    await world.database.entry_becomes(event, "delivered")
    after = await gateway.scrape()
    assert after.since(before, "dedup_inbox_concluded_total", route="hopeless") == 1


@pytest.mark.row(90)
async def test_a_dead_event_is_kept_until_a_person_has_it_sent_as_a_new_attempt_marked(
    world: World, gateway: Gateway
) -> None:
    event = fresh("spent")
    world.consumer.script(event, Says(status=500))
    await world.deliver(event, path="/hooks/hopeless")
    dead = await world.database.entry_becomes(event, "dead")
    assert (dead.doubtful, dead.why) == (True, "refused 500")
    assert await body_of(world, event)
    world.consumer.script(event, OK)
    done = await asyncio.to_thread(
        run, "inbox", "redrive", event, "--route", "hopeless", "--by", "me",
        "--reason", "mended", "--yes", "--config", str(gateway.file),
    )  # fmt: skip
    assert done.returncode == 0, done
    await world.database.entry_becomes(event, "delivered")
    assert world.attempts(event)[-1] == (dead.attempt + 1, True)
    assert len(world.consumer.effects(event)) == 1


@pytest.mark.row(93)
async def test_an_event_does_not_wait_for_an_earlier_one_that_has_to_be_retried(
    world: World, gateway: Gateway
) -> None:
    """Order is nobody's promise: README says so."""
    earlier, later = fresh("earlier"), fresh("later")
    world.consumer.script(earlier, Says(status=500), OK)
    await world.deliver(earlier, object="o_1")
    await world.deliver(later, object="o_1")
    await world.database.entry_becomes(earlier, "delivered")
    await world.database.entry_becomes(later, "delivered")
    retried = world.consumer.requests(earlier)[1]
    assert world.consumer.requests(later)[0].at < retried.at


async def body_of(world: World, event: str) -> bytes:
    sql = "select body from dedup.entries where event_id = convert_to($1, 'UTF8')"
    return bytes(await world.database.value(sql, event))
