"""Routes as they run, across changes of the configuration."""

from __future__ import annotations

import asyncio
import gc
import time
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import pytest

from gateway.core.answer import Unanswered, Verdict
from gateway.core.outcome import Outcome, StatusPolicy, Unreached
from gateway.core.route import Mode, Upstream
from gateway.core.signature import Signature
from gateway.flow.receive import ForwardRoute
from gateway.routing import Routing
from gateway.sealing import Seals as Sealed
from gateway.upstream.hop import Hop
from tests.flow.consumer import says
from tests.flow.seals import SIGNATURE, Seals
from tests.flow.world import ROUTE, World, delivery


def nowhere(step: str) -> None:
    pass


def new_hop(upstream: Upstream, policy: StatusPolicy) -> Hop:
    return Hop(upstream, policy, clock=time.monotonic, at=nowhere)


def no_seals(signature: Signature) -> Sealed:
    raise AssertionError(signature)


async def test_what_began_before_a_reload_is_cut_off_with_the_rest_even_if_not_sent_yet() -> None:
    world, taken = World(), []
    consumer = await asyncio.start_server(lambda _, writer: taken.append(writer), "127.0.0.1", 0)
    port = consumer.sockets[0].getsockname()[1]
    here = replace(ROUTE, upstream=replace(ROUTE.upstream, port=port))
    routing = Routing(world.shared, new_hop, no_seals)
    routing.use((here,), ())
    receiver = routing.find("/hooks/orders", None)
    assert receiver is not None
    routing.use((replace(ROUTE, upstream=replace(ROUTE.upstream, port=3001)),), ())
    await routing.close_replaced()
    await routing.abort()
    told = await receiver.receive(delivery())
    assert told == Unanswered(Verdict.FIRST, timed_out=False, sent=False)
    assert taken == []
    consumer.close()
    await world.end()


async def test_hops_of_earlier_configurations_are_forgotten_once_nobody_uses_them() -> None:
    world = World()
    made: list[int] = []

    def counted(upstream: Upstream, policy: StatusPolicy) -> Hop:
        made.append(upstream.port)
        return new_hop(upstream, policy)

    routing = Routing(world.shared, counted, no_seals)
    for port in range(3000, 3010):
        routing.use((replace(ROUTE, upstream=replace(ROUTE.upstream, port=port)),), ())
        await routing.close_replaced()
    gc.collect()
    assert len(made) == 10
    assert sum(isinstance(thing, Hop) for thing in gc.get_objects()) == 1
    await world.end()


async def test_other_proxies_to_trust_or_renewed_certificates_are_taken_up(tmp_path: Path) -> None:
    world = World()
    ca = tmp_path / "ca.pem"
    routing = Routing(world.shared, lambda _, policy: new_hop(ROUTE.upstream, policy), no_seals)
    tls = replace(ROUTE.upstream, tls=replace(ROUTE.upstream.tls, ca=str(ca)))
    route = replace(ROUTE, upstream=tls)
    ca.write_text("old")
    routing.use((route,), ())
    first = routing.find("/hooks/orders", None)
    routing.use((route,), (ip_network("10.0.0.0/8"),))
    second = routing.find("/hooks/orders", None)
    ca.write_text("new")
    routing.use((route,), (ip_network("10.0.0.0/8"),))
    third = routing.find("/hooks/orders", None)
    assert len({id(first), id(second), id(third)}) == 3
    await world.end()


async def test_the_idle_connections_of_a_replaced_hop_are_closed() -> None:
    world, closed = World(), []

    class Noted(Hop):
        async def close(self) -> None:
            closed.append(self)
            await super().close()

    def noted(upstream: Upstream, policy: StatusPolicy) -> Hop:
        return Noted(upstream, policy, clock=time.monotonic, at=nowhere)

    routing = Routing(world.shared, noted, no_seals)
    routing.use((ROUTE,), ())
    routing.use((replace(ROUTE, upstream=replace(ROUTE.upstream, port=3001)),), ())
    await routing.close_replaced()
    assert len(closed) == 1
    await world.end()


async def test_a_consumer_that_was_away_before_a_reload_is_back_after_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "gateway")
    world, outcomes = World(), [Unreached("connect_refused"), says(200)]

    class Scripted(Hop):
        async def send(self, *_: object, **__: object) -> Outcome:
            return outcomes.pop(0)

    routing = Routing(
        world.shared,
        lambda upstream, policy: Scripted(upstream, policy, clock=time.monotonic, at=nowhere),
        no_seals,
    )
    for mode in (Mode.OBSERVE, Mode.FORWARD):
        routing.use((replace(ROUTE, mode=mode),), ())
        receiver = routing.find("/hooks/orders", None)
        assert receiver is not None
        await receiver.receive(delivery(mode.value))
    told = [line.message for line in caplog.records if line.message.startswith("upstream")]
    assert told == ["upstream_away", "upstream_back"]
    await world.end()


async def test_a_reload_keeps_the_receivers_of_routes_that_did_not_change() -> None:
    world = World()
    routing = Routing(world.shared, new_hop, no_seals)
    routing.use((ROUTE,), ())
    before = routing.find("/hooks/orders", None)
    routing.use((ROUTE, replace(ROUTE, name="more", path="/hooks/more")), ())
    assert routing.find("/hooks/orders", None) is before
    assert routing.find("/hooks/more/x?y", None) is not None
    assert routing.find("/hooks/mores", None) is None
    await world.end()


SIGNED = replace(ROUTE, signature=SIGNATURE)


class Made:
    """What was made to check with, by the signature that it was made for."""

    def __init__(self) -> None:
        self.of: list[Signature] = []

    def seals(self, signature: Signature) -> Sealed:
        self.of.append(signature)
        return Seals(), None


async def test_a_changed_secret_is_in_force_with_the_next_request_and_over_the_same_hop() -> None:
    world, made, hops = World(), Made(), []

    def counted(upstream: Upstream, policy: StatusPolicy) -> Hop:
        hops.append(upstream)
        return new_hop(upstream, policy)

    routing = Routing(world.shared, counted, made.seals)
    routing.use((SIGNED,), ())
    before = routing.find("/hooks/orders", None)
    rotated = replace(SIGNATURE, secrets=("newest", *SIGNATURE.secrets))
    routing.use((replace(SIGNED, signature=rotated),), ())
    assert routing.find("/hooks/orders", None) is not before
    assert made.of == [SIGNATURE, rotated]
    assert len(hops) == 1
    routing.use((ROUTE,), ())
    assert isinstance(routing.find("/hooks/orders", None), ForwardRoute)
    await world.end()


async def test_whatever_else_changes_what_was_fetched_to_check_with_is_kept() -> None:
    world, made = World(), Made()
    routing = Routing(world.shared, new_hop, made.seals)
    port = replace(ROUTE.upstream, port=3001)
    for route in (SIGNED, replace(SIGNED, mode=Mode.OBSERVE), replace(SIGNED, upstream=port)):
        routing.use((route,), ())
    assert made.of == [SIGNATURE]
    await world.end()


async def test_the_new_content_of_a_key_file_is_taken_up_and_a_url_is_no_file(
    tmp_path: Path,
) -> None:
    world, made = World(), Made()
    file = tmp_path / "provider.pem"
    keyed = replace(SIGNATURE, keys=(str(file), "https://provider.example/keys"))
    routing = Routing(world.shared, new_hop, made.seals)
    for content in ("old", "old", "new"):
        file.write_text(content)
        routing.use((replace(SIGNED, signature=keyed),), ())
    assert made.of == [keyed, keyed]
    await world.end()


async def test_keys_that_cannot_be_used_leave_the_old_configuration_in_force() -> None:
    world, made = World(), Made()

    def unusable(signature: Signature) -> Sealed:
        if signature != SIGNATURE:
            raise ValueError("no key in it")
        return made.seals(signature)

    routing = Routing(world.shared, new_hop, unusable)
    routing.use((SIGNED,), ())
    before = routing.find("/hooks/orders", None)
    other = replace(SIGNATURE, keys=("other.pem",))
    with pytest.raises(ValueError, match="no key in it"):
        routing.use((replace(SIGNED, signature=other), replace(ROUTE, name="b", path="/b")), ())
    assert routing.find("/hooks/orders", None) is before
    assert routing.find("/b", None) is None
    await world.end()
