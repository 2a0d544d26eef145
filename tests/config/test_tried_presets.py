"""Each provider's own requests, as `try` shows them under its preset and nothing else."""

from __future__ import annotations

import pytest

from gateway.config import Loaded, Sample, sample, try_sample
from gateway.core.event import Delivery
from gateway.core.route import FixedReply, StandardReply
from tests.config.conftest import Read
from tests.config.test_preset_layer import provided
from tests.providers import samples

ANSWERING = ("answer_handshakes: true", "mode: forward")


def tried(loaded: Loaded, delivery: Delivery) -> Sample:
    lines = [f"{delivery.method} /hooks/billing{delivery.target} HTTP/1.1".encode()]
    lines += [name + b": " + value for name, value in delivery.headers]
    found = try_sample(loaded, None, b"\r\n".join((*lines, b"", delivery.body)))
    assert sample.as_text(found)
    assert sample.as_json(found)
    assert found.route == "billing"
    return found


def keys(found: Sample) -> set[str | None]:
    return {item.key for item in found.items} or {found.key}


@pytest.mark.parametrize("name", samples.names())
def test_a_retry_has_the_key_of_its_event_and_each_sibling_another(read: Read, name: str) -> None:
    loaded, given = read(provided(name)), samples.sample(name)
    event, retry, *siblings = (
        tried(loaded, one) for one in (given.event, given.retry, *given.siblings)
    )
    assert siblings
    if loaded.routes[0].pass_through is not None:
        assert {one.verdict for one in (event, retry, *siblings)} == {"passed"}
        return
    assert event.verdict == "keyed", event.why
    assert None not in keys(event)
    assert keys(retry) <= keys(event)  # a batch may come again in parts
    known = keys(event)
    for sibling in siblings:
        assert not keys(sibling) & known
        known |= keys(sibling)


@pytest.mark.parametrize("name", samples.names())
def test_handshakes_are_never_claimed(read: Read, name: str) -> None:
    for lines in ((), ANSWERING):
        loaded = read(provided(name, *lines))
        for one in samples.sample(name).handshakes:
            found = tried(loaded, one.request)
            assert (found.verdict, keys(found)) == ("passed", {None})
            assert found.handshake is not None or name == "xero"  # whose list of events is empty


@pytest.mark.parametrize("name", samples.names())
def test_a_duplicate_is_told_what_the_provider_insists_on(read: Read, name: str) -> None:
    wanted = samples.sample(name).duplicate
    reply = read(provided(name)).routes[0].duplicate_reply
    if wanted is None or isinstance(reply, StandardReply):
        assert wanted is None or (wanted.status, wanted.body or None) == (200, None)
        return
    assert isinstance(reply, FixedReply)
    assert reply.status == wanted.status
    assert wanted.body is None or reply.body.decode() == wanted.body
