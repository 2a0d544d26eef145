"""What the log says of a consumer that cannot be reached: when it begins and when it is over."""

from __future__ import annotations

import logging

import pytest

from gateway.core.outcome import OURS, Ambiguous, Outcome, Unreached
from gateway.flow.reach import QUIET, Reach
from tests.flow.consumer import says
from tests.flow.world import ROUTE, World

REFUSED = Unreached("connect_refused")


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gateway")


class Told:
    """A reach under a clock that moves by assignment."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 100.0
        self._reach = Reach(ROUTE, lambda: self.now)
        self._caplog = caplog

    def by(self, *outcomes: Outcome) -> list[str]:
        self._caplog.clear()
        for outcome in outcomes:
            self._reach.told(outcome)
        return [line.message for line in self._caplog.records]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


async def test_a_consumer_that_is_away_is_one_line_however_many_deliveries_it_fails(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.consumer.answers(*[REFUSED] * 5, says(200))
    for _ in range(6):
        await world.deliver()
    lines = [line for line in caplog.records if line.message.startswith("upstream")]
    assert [line.message for line in lines] == ["upstream_away", "upstream_back"]
    away = vars(lines[0])
    assert (away["route"], away["why"]) == ("orders", "connect_refused")
    assert away["upstream"] == world.route.upstream.authority


def test_a_consumer_that_stays_away_is_no_second_line(told: Told) -> None:
    assert told.by(REFUSED) == ["upstream_away"]
    told.now += 10 * QUIET
    assert told.by(REFUSED, REFUSED) == []


@pytest.mark.parametrize("reached", [says(500), says(401), Ambiguous("timeout", timed_out=True)])
def test_a_consumer_that_answers_anything_or_nothing_was_reached(
    told: Told, reached: Outcome
) -> None:
    assert told.by(reached) == []
    assert told.by(REFUSED, reached) == ["upstream_away", "upstream_back"]


@pytest.mark.parametrize("reason", sorted(OURS))
def test_what_never_set_out_says_nothing_of_the_consumer(told: Told, reason: str) -> None:
    assert told.by(Unreached(reason)) == []
    assert told.by(REFUSED, Unreached(reason), REFUSED) == ["upstream_away"]


def test_a_consumer_that_comes_and_goes_does_not_fill_the_log(told: Told) -> None:
    flapping = [REFUSED, says(200)] * 50
    assert told.by(*flapping) == ["upstream_away", "upstream_back"]
    told.now += QUIET
    assert told.by(*flapping) == ["upstream_away", "upstream_back"]
