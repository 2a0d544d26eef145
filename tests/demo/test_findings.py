"""The demo's judgement: it must not call anything clean that is not."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from gateway.demo.findings import DIRECTLY, THROUGH, Finding, find, problems, table
from gateway.demo.provider import Sent

DOUBLED = Finding(
    "redrive", DIRECTLY, events=3, deliveries=6, effects=6, doubled=3, lost=0, unanswered=0
)
CLEAN = Finding(
    "redrive", THROUGH, events=3, deliveries=6, effects=3, doubled=0, lost=0, unanswered=0
)


def test_effects_are_counted_per_event_and_not_netted_against_each_other() -> None:
    finding = find("s", THROUGH, ("a", "b", "c"), {"a": 2, "b": 1}, Sent(deliveries=4))
    assert (finding.effects, finding.doubled, finding.lost) == (3, 1, 1)
    assert not finding.is_clean


def test_doubles_directly_and_none_through_the_gateway_is_what_the_demo_is_for() -> None:
    assert problems([DOUBLED, CLEAN]) == []


@pytest.mark.parametrize(
    ("findings", "said"),
    [
        ([replace(DOUBLED, doubled=0), CLEAN], "redrive (directly): no doubles"),
        ([DOUBLED, replace(CLEAN, doubled=1)], "redrive (gateway): 1 events had two"),
        ([DOUBLED, replace(CLEAN, lost=2)], "redrive (gateway): 2 events had none"),
        (
            [DOUBLED, replace(CLEAN, unanswered=1)],
            "redrive (gateway): 1 events were never",
        ),
    ],
)
def test_anything_else_is_said(findings: list[Finding], said: str) -> None:
    (problem,) = problems(findings)
    assert problem.startswith(said)


def test_the_table_shows_both_runs_of_a_shape_within_eighty_columns() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(
        table([replace(DOUBLED, shape="time-out, then retry")], [CLEAN])
    )
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert any("time-out, then retry" in line and DIRECTLY in line for line in lines)
    assert any(THROUGH in line for line in lines)
    assert "Doubled: events with two effects or more" in out.getvalue()
