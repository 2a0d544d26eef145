"""Every test runs on both event loops: the shipped one, and the one for systems without uvloop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from gateway.core.route import Route
from gateway.web.ingress import Ingress
from tests.swallowed import swallowed
from tests.web.stage import LIMITS, ROUTE, MakeStage, ScriptedReceiver, Stage, Tally


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def make_stage() -> AsyncIterator[MakeStage]:
    """Builds an ingress with other limits or another route: `await make_stage(connections=3)`."""
    built: list[Stage] = []

    async def make(*, route: Route = ROUTE, **limits: Any) -> Stage:
        receiver, tally = ScriptedReceiver(route), Tally()

        def find(target: str, host: bytes | None) -> ScriptedReceiver | None:
            return receiver if target.startswith(route.path) else None

        wanted = replace(LIMITS, **limits)
        log = logging.getLogger("test.web")
        stage = Stage(Ingress(find, limits=wanted, counts=tally, log=log), receiver, tally)
        built.append(stage)
        stage.address = await stage.ingress.listen("127.0.0.1", 0)
        return stage

    yield make
    for stage in built:
        await stage.close()


@pytest.fixture
async def stage(make_stage: MakeStage) -> Stage:
    return await make_stage()


@pytest.fixture(autouse=True)
def nothing_swallowed(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """aiohttp and asyncio log what they swallow; none of it may happen in here."""
    yield
    assert not swallowed(caplog)
