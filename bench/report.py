"""The figures for people."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bench.backlog import Inbox
from bench.figures import CEILINGS, Found, figure
from bench.measure import Measured
from bench.series import Spread
from bench.storage import Size, Time

# Loads under names for people, where those are others; short, for eighty columns.
LOADS = {"inbox": "stored", "inbox_delivered": "inbox"}
# Loads that other tables show.
ELSEWHERE = frozenset({"rate", "inbox_draining"})


def show(console: Console, found: Found, document: dict[str, object]) -> None:
    """All tables, the promises last, where eyes end up.

    `PG` is the Postgres of the gateway, all its processes; `in echoes` the CPU time of its own
    process, in requests of the bare server: the rounds' median and extremes. `stored` is an inbox
    that only accepts, `inbox` one that delivers as well.
    """
    for connections, ratios in ((64, found.ratios), (1, found.ratios_one)):
        console.print(_load_table(found.measured, connections, ratios))
    console.print(_rate_table(found.measured))
    console.print(_drain_table(found.inbox))
    console.print(_size_table(found.sizes))
    console.print(_time_table(found.times))
    console.print(_ceiling_table(document))


def _load_table(measured: list[Measured], connections: int, ratios: dict[str, Spread]) -> Table:
    table = _table(
        f"{connections} connection{'s' if connections > 1 else ''}, closed loop",
        "", "per s", "CPU µs", "PG µs", "in echoes", "p50 ms", "p99 ms",
    )  # fmt: skip
    for (target, load), runs in _grouped(m for m in measured if m.connections == connections):
        if load in ELSEWHERE:
            continue
        spread = ratios.get({"first": "forward"}.get(load, load))
        table.add_row(
            target if load == "request" else f"{target}, {LOADS.get(load, load)}",
            f"{median(run.per_second for run in runs):,.0f}",
            f"{median(run.cpu_us[target] for run in runs):.0f}",
            _postgres(runs),
            f"{spread.ratio:.2f} ({spread.low:.2f}-{spread.high:.2f})" if spread else "",
            f"{median(run.latency_ms['p50'] for run in runs):.2f}",
            f"{median(run.latency_ms['p99'] for run in runs):.2f}",
        )
    return table


def _rate_table(measured: list[Measured]) -> Table:
    table = _table("200 events a second, open loop", "", "p50 ms", "p90 ms", "p99 ms", "max ms")
    for (target, load), runs in _grouped(measured):
        if load == "rate":
            values = [
                f"{median(run.latency_ms[name] for run in runs):.2f}"
                for name in ("p50", "p90", "p99", "max")
            ]
            table.add_row(target, *values)
    return table


def _drain_table(inbox: Inbox) -> Table:
    drain, draining = inbox.drain, inbox.draining
    table = _table(
        f"a backlog of {drain.entries:,} entries drains",
        "", "accepted/s", "delivered/s", "CPU µs", "PG µs", "p50 ms", "p99 ms",
    )  # fmt: skip
    table.add_row(
        "alone", "", f"{drain.per_second:,.0f}",
        f"{drain.cpu_us['gateway']:.0f}", f"{drain.cpu_us['postgres']:.0f}", "", "",
    )  # fmt: skip
    accepted = draining.accepted
    table.add_row(
        "with new events",
        f"{accepted.per_second:,.0f}",
        f"{draining.delivered_per_second:,.0f}",
        "",
        "",
        f"{accepted.latency_ms['p50']:.2f}",
        f"{accepted.latency_ms['p99']:.2f}",
    )
    return table


def _size_table(sizes: list[Size]) -> Table:
    table = _table(
        f"bytes per settled claim, {sizes[0].claims:,} claims",
        "", "total", "table", "indexes", "HOT", "vacuums", "claims/s",
    )  # fmt: skip
    for size in sizes:
        table.add_row(
            "28-character id" if size.ids else "no id",
            f"{size.total:.1f}",
            f"{size.heap:.1f}",
            f"{size.indexes:.1f}",
            f"{size.hot:.0%}",
            str(size.vacuums),
            f"{size.per_second:,.0f}",
        )
    return table


def _time_table(times: list[Time]) -> Table:
    table = _table(
        "store time per delivery, batches of 20, µs",
        "rows", "first", "of it Postgres CPU", "duplicate",
    )  # fmt: skip
    for time in times:
        table.add_row(
            f"{time.rows:,}", f"{time.first:.0f}", f"{time.first_cpu:.0f}", f"{time.duplicate:.0f}"
        )
    return table


def _ceiling_table(document: dict[str, object]) -> Table:
    table = _table("promised and measured", "", "measured", "at most", "")
    for ceiling in CEILINGS:
        value = figure(document, ceiling.name)
        met = "[green]met[/]" if value <= ceiling.most else "[bold red]not met[/]"
        table.add_row(ceiling.what, f"{value:.2f}", f"{ceiling.most:g}", met)
    return table


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(
        box=SIMPLE_HEAD,
        title=title,
        title_justify="left",
        title_style="bold",
        # Without this the widest one needs more than the eighty columns of a plain log.
        collapse_padding=True,
        pad_edge=False,
    )
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _postgres(runs: list[Measured]) -> str:
    if "postgres" not in runs[0].cpu_us:
        return ""
    return f"{median(run.cpu_us['postgres'] for run in runs):.0f}"


def _grouped(
    measured: Iterable[Measured],
) -> list[tuple[tuple[str, str], list[Measured]]]:
    groups: dict[tuple[str, str], list[Measured]] = {}
    for one in measured:
        groups.setdefault((one.target, one.load), []).append(one)
    return list(groups.items())
