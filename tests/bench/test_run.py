"""A tiny run of the whole bench. It says nothing about speed: timings belong to no test."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench.figures import CEILINGS, Found, as_json, figure
from bench.report import show
from bench.run import Scale, run

TINY = Scale(
    known=100,
    rounds=1,
    seconds=0.2,
    surrounding_rounds=1,
    latency_rounds=1,
    latency_seconds=0.5,
    backlog=150,
    claims=500,
    rows=(300, 900),
    batches=3,
)

# 90 s on two busy cores, most of it for starting some forty processes.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def found() -> Found:
    return asyncio.run(run(TINY, said=lambda what: None))


def test_a_run_finds_every_promised_figure(found: Found) -> None:
    document = json.loads(json.dumps(as_json(found, quick=True)))
    for ceiling in CEILINGS:
        if ceiling.name.startswith("added_latency"):
            figure(document, ceiling.name)  # a difference, so noise may make it anything
        else:
            assert 0 < figure(document, ceiling.name) < 10_000
    assert figure(document, "cpu_ratio_c1.forward") > 0
    # So few claims can fill the same number of pages.
    assert figure(document, "bytes_per_claim_without_id") <= figure(document, "bytes_per_claim")


def test_a_backlog_drains_and_takes_new_events_meanwhile(found: Found) -> None:
    inbox = found.inbox
    assert inbox.drain.entries >= TINY.backlog
    assert inbox.drain.per_second > 0
    assert inbox.draining.accepted.per_second > 0
    assert inbox.draining.delivered_per_second > 0


def test_a_run_was_durable_and_says_so(found: Found) -> None:
    postgres = found.machine["postgres"]
    assert isinstance(postgres, dict)
    assert postgres["fsync"] == postgres["synchronous_commit"] == postgres["autovacuum"] == "on"


def test_the_tables_show_each_load_and_each_ceiling(found: Found) -> None:
    out = io.StringIO()
    show(Console(file=out, width=100), found, as_json(found, quick=True))
    text = out.getvalue()
    loads = ("first", "duplicate", "doubles", "stored", "inbox")
    for load in ("echo", *(f"gateway, {name}" for name in loads), "with new events"):
        assert load in text
    for ceiling in CEILINGS:
        assert ceiling.what in text


def test_the_picture_is_drawn(found: Found, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="only the bench group brings it")
    from bench.plot import draw

    draw(found, tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
