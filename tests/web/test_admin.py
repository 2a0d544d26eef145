"""Metrics and probes on a listener of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from gateway.web.admin import Admin
from tests.web.stage import Answer11, Sender


class Operators:
    """The admin listener, with what the program would tell it."""

    def __init__(self) -> None:
        self.ready, self.facts = True, {"store": "up"}
        self.admin = Admin(lambda: (b"metric 1\n", "text/plain; version=1"), self.readiness)
        self.address = ("", 0)

    def readiness(self) -> tuple[bool, dict[str, str]]:
        return self.ready, self.facts

    async def ask(self, method: bytes, path: bytes) -> Answer11:
        sender = Sender(*await asyncio.open_connection(*self.address))
        await sender.send(method + b" " + path + b" HTTP/1.1\r\nHost: h\r\n\r\n")
        answer = await sender.reply(bodiless=method == b"HEAD")
        await sender.close()
        return answer


@pytest.fixture
async def operators() -> AsyncIterator[Operators]:
    built = Operators()
    built.address = await built.admin.listen("127.0.0.1", 0)
    yield built
    await built.admin.close()


async def test_metrics_are_served_as_they_are_rendered(operators: Operators) -> None:
    page = await operators.ask(b"GET", b"/metrics")
    assert (page.status, page.body) == (200, b"metric 1\n")
    assert page.value(b"content-type") == b"text/plain; version=1"


async def test_health_does_not_depend_on_readiness(operators: Operators) -> None:
    operators.ready = False
    assert (await operators.ask(b"GET", b"/healthz")).status == 200


async def test_readiness_says_what_is_wrong(operators: Operators) -> None:
    assert (await operators.ask(b"GET", b"/readyz")).status == 200
    operators.ready, operators.facts = False, {"store": "away"}
    page = await operators.ask(b"GET", b"/readyz")
    assert page.status == 503
    assert json.loads(page.body) == {"ready": False, "store": "away"}


async def test_probes_may_ask_with_head(operators: Operators) -> None:
    for path in (b"/healthz", b"/readyz", b"/metrics"):
        assert (await operators.ask(b"HEAD", path)).status == 200


async def test_nothing_else_is_there_and_nothing_can_be_changed(operators: Operators) -> None:
    for path in (b"/", b"/metrics/", b"/claims", b"//healthz", b"/healthz/../readyz"):
        assert (await operators.ask(b"GET", path)).status == 404
    assert (await operators.ask(b"DELETE", b"/metrics")).status == 405
    assert (await operators.ask(b"POST", b"/anything")).status == 404


async def test_a_page_that_fails_is_500_and_the_next_is_served(
    operators: Operators, caplog: pytest.LogCaptureFixture
) -> None:
    operators.facts = {"unwritable": object()}  # type: ignore[dict-item]
    assert (await operators.ask(b"GET", b"/readyz")).status == 500
    assert (await operators.ask(b"GET", b"/healthz")).status == 200
    assert caplog.records
    caplog.clear()


async def test_after_the_end_nobody_listens(operators: Operators) -> None:
    await operators.admin.close()
    with pytest.raises(ConnectionRefusedError):
        await operators.ask(b"GET", b"/healthz")


async def test_an_address_that_is_taken_is_named(operators: Operators) -> None:
    host, port = operators.address
    second = Operators()
    with pytest.raises(OSError, match=f"cannot listen on {host}:{port}: Address already in use"):
        await second.admin.listen(host, port)
    await second.admin.close()
