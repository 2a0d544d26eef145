"""`audit`: compares what the consumer did, or what the provider sent, with the claims."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Annotated

import typer

from gateway import sources
from gateway.config import Loaded, hide_in
from gateway.core.auditing import Against, Asked
from gateway.core.durations import parse_duration
from gateway.core.retention import parse_event_time
from gateway.core.route import Route
from gateway.operating import audit_report, meant, rows
from gateway.operating.audit_list import read_list, waiting
from gateway.operating.audit_summary import Report
from gateway.operating.composing import Composer
from gateway.operating.ending import ask
from gateway.operating.rows import Source
from gateway.operating.spool import Spool
from gateway.operating.wording import dated, stamp
from gateway.options import ConfigOption, JsonOption
from gateway.process import FOUND
from gateway.sources import Unusable
from gateway.store.audit import Answer, Found, Listing, Question, compare
from gateway.store.operator import Desk


def audit(
    route: Annotated[str, typer.Option("--route", help="The route's name.", metavar="NAME")],
    effects: Annotated[
        str | None,
        typer.Option(
            help="What the consumer did, a row each: CSV or NDJSON; - reads stdin.", metavar="FILE"
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(help="The same, asked of the consumer's own database.", metavar="SQL"),
    ] = None,
    dsn: Annotated[
        str | None, typer.Option(help="With --query: that database.", metavar="DSN")
    ] = None,
    provider_log: Annotated[
        str | None,
        typer.Option(
            help="Instead: the events that the provider says it sent; - reads stdin.",
            metavar="FILE",
        ),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="csv or ndjson, where FILE does not say.", metavar="FORMAT"),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="From then on: a time, or how long ago.", metavar="TIME"),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Up to then: a time, or how long ago.", metavar="TIME"),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="The list has some kinds of events only: say nothing of claims that it lacks.",
        ),
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(help="Show only so many of each kind, by chance.", metavar="N", min=0),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="With --sample: show those of an earlier run again.", metavar="N"),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Compare the consumer's effects with the claims: effects without a claim, claims without an
    effect, and events with two effects. Or a provider's list of events with them.

    Exit 1 when something is found. Rows name the event by the places that the route reads its id
    at, or by `id`, and the time of the effect by `time`.
    """
    if as_json and as_csv:
        raise Unusable("--json and --csv are two outputs; write one of them")
    source, against = _source(effects, provider_log, rows_of=(query, dsn, format_))
    loaded = sources.read(config, variables_required=False)
    found = meant.named(loaded, route)
    composer = Composer(found)
    began = ask(config, lambda desk: _began(desk, found))
    asked = Asked(
        _moment("--since", since, began), _moment("--until", until, began), source.query is not None
    )
    question = Question(
        route=found.name,
        print=found.print,
        against=against,
        asked=asked,
        partial=partial,
        began=began,
        retention=found.retention.total_seconds(),
        lease=found.lease,
        sample=sample,
        seed=random.randrange(1_000_000) if seed is None else seed,
    )
    with ExitStack() as stack:
        listing = stack.enter_context(Spool(Listing))
        findings = stack.enter_context(Spool(Found))
        show = not (as_json or as_csv)
        read = read_list(source, composer, listing, show=show)
        with waiting(show=show):
            answer = ask(config, lambda desk: compare(desk, question, listing, findings.append))
        _require_overlap(answer)
        report = Report(
            route=found.name,
            source="a query" if source.file is None else _shown(source.file),
            unit=source.unit,
            asked=asked,
            partial=partial,
            answer=answer,
            rows=read.rows,
            unusable=read.unusable,
            examples=hide_in(tuple(read.examples), loaded.hidden),
            absent=hide_in(composer.absent, loaded.hidden),
            sharing=_sharing(loaded, found),
            sample=sample,
            seed=question.seed,
        )
        _show(report, findings, as_json=as_json, as_csv=as_csv)
    if answer.total:
        raise typer.Exit(FOUND)


def _source(
    effects: str | None,
    provider_log: str | None,
    rows_of: tuple[str | None, str | None, str | None],
) -> tuple[Source, Against]:
    query, dsn, format_ = rows_of
    given = [one is not None for one in (effects, query, provider_log)]
    if given.count(True) != 1:
        raise Unusable(
            "write one list: --effects FILE, or --query SQL --dsn DSN, or --provider-log FILE"
        )
    file = effects if provider_log is None else provider_log
    against = Against.EFFECTS if provider_log is None else Against.PROVIDER
    return rows.source(file, query, dsn, format_), against


async def _began(desk: Desk, route: Route) -> float:
    """When the audit does, on the database's clock: whatever the list has is not younger."""
    if route.name not in desk.routes:
        raise Unusable(f"route {route.name} never claimed an event here: there is nothing to audit")
    return desk.now


def _moment(option: str, text: str | None, now: float) -> float | None:
    if text is None:
        return None
    moment = parse_event_time(text)
    if moment is not None and moment == dated(moment):
        return moment
    try:
        return now - parse_duration(text).total_seconds()
    except ValueError:
        raise Unusable(
            f"{option}: {text!r} is no time; write 2026-11-01T00:00:00Z, with Z or an offset, or"
            " 30d for so long ago"
        ) from None


def _require_overlap(answer: Answer) -> None:
    """Where nothing was compared, nothing is known to agree."""
    terms, listed = answer.terms, answer.listed
    if terms.since <= terms.until:
        return
    said = f"nothing is of the window, which would begin {stamp(terms.since)}"
    said += f" and end {stamp(terms.until)}: the memory begins {stamp(terms.begins)}"
    if listed.first is not None and listed.last is not None:
        said += f", and the list goes from {stamp(listed.first)} to {stamp(listed.last)}"
    raise Unusable(said)


def _sharing(loaded: Loaded, route: Route) -> tuple[str, ...]:
    """Other routes in whose claims an event of this one may be."""
    return tuple(
        other.name
        for other in loaded.routes
        if other.name != route.name and other.pass_through is None and other.scope == route.scope
    )


def _shown(file: str) -> str:
    return "standard input" if file == "-" else file


def _show(report: Report, findings: Spool[Found], *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        audit_report.show_json(report, findings)
    elif as_csv:
        audit_report.show_csv(report, findings)
    else:
        audit_report.show_text(report, findings)
