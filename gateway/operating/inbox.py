"""`inbox list`, `inbox show`, and `inbox redrive`, `drop` and `complete`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gateway.core.operating import UNDELIVERED, Action
from gateway.operating import acting, listing, meant
from gateway.operating.claims import look
from gateway.operating.ending import ask, end, say, say_json
from gateway.operating.options import (
    BodyOption,
    ByOption,
    DryRunOption,
    Event,
    IdArgument,
    KeyOption,
    OlderOption,
    OperationOption,
    ReasonOption,
    RouteOption,
    StateOption,
    Which,
    WhyOption,
    YesOption,
)
from gateway.operating.story import as_dict, as_text, item_lines, items_dict
from gateway.operating.wording import header_lines
from gateway.options import ConfigOption, JsonOption
from gateway.process import FOUND
from gateway.store.known import Known
from gateway.store.operator import Desk

app = typer.Typer(
    help="Events that were acknowledged and are still owed to their consumer.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list", short_help="List entries, the longest waiting first.")
def list_(
    route: RouteOption = None,
    state: StateOption = None,
    older_than: OlderOption = None,
    why: WhyOption = None,
    limit: Annotated[int, typer.Option(help="At most so many.", metavar="N", min=1)] = 50,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List entries, the longest waiting first; without --state those that are not delivered yet.

    States are pending, leased, delivered, dead, held and dropped.
    """
    which = Which(route, tuple(state or ()), older_than, why)

    async def work(desk: Desk) -> tuple[list[Known], int]:
        wanted = meant.entries(desk, which, otherwise=UNDELIVERED)
        there = sum(group.entries for group in await desk.count(wanted))
        return await desk.oldest(wanted, limit), there

    found, there = ask(config, work)
    if as_json:
        say_json({"entries": listing.entries_dict(found), "matching": there})
        return
    if not found:
        say("no entries")
        return
    listing.show_entries(found)
    if there > len(found):
        say(f"{len(found)} of {there:,}; --limit shows more")


@app.command(short_help="Tell the story of an entry, headers and payload included.")
def show(
    ids: IdArgument = None,
    route: RouteOption = None,
    operation: OperationOption = None,
    body: BodyOption = None,
    key: KeyOption = None,
    full: Annotated[
        bool, typer.Option("--full", help="Hide no secret of headers and query.")
    ] = False,
    payload: Annotated[
        bool, typer.Option("--payload", help="Write the body, and nothing else, byte for byte.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell the story of an event and its entry, headers included.

    Values of headers that look like secrets, and the query, are hidden unless --full is there.
    Exit 1 when there is no entry.
    """
    found = look(config, Event(tuple(ids or ()), route, body, key, tuple(operation or ())))
    at = found.known.entry_key
    kept = None if at is None else ask(config, lambda desk: desk.payload(at))
    if at is None or kept is None:
        end(FOUND, f"the inbox has no entry of this event; its key is {found.known.key.hex()}")
    headers, bytes_ = kept
    if payload:
        sys.stdout.buffer.write(bytes_)
        return
    lines = header_lines(headers, full=full)
    items = ask(config, lambda desk: desk.items(at)) if found.known.items else []
    if as_json:
        say_json({**as_dict(found, full=full), "headers": lines, "items": items_dict(items)})
        return
    say(as_text(found, full=full))
    for line in item_lines(items):
        say(line)
    say("\n" + "\n".join(f"{name}: {value}" for name, value in lines))


def _add(action: Action, short: str, long: str) -> None:
    """The three verbs that act take the same options."""

    def verb(
        ids: IdArgument = None,
        route: RouteOption = None,
        operation: OperationOption = None,
        body: BodyOption = None,
        key: KeyOption = None,
        state: StateOption = None,
        older_than: OlderOption = None,
        why: WhyOption = None,
        dry_run: DryRunOption = False,
        by: ByOption = None,
        reason: ReasonOption = None,
        yes: YesOption = False,
        config: ConfigOption = None,
        as_json: JsonOption = False,
    ) -> None:
        run = acting.Run(
            action,
            config,
            by=None if dry_run else meant.by(by, reason),
            yes=yes,
            as_json=as_json,
        )
        event = Event(tuple(ids or ()), route, body, key, tuple(operation or ()))
        which = Which(route, tuple(state or ()), older_than, why)
        raise typer.Exit(acting.act(run, event, which))

    text = f"{long}\n\nOne event, or with --state all that are so. {_ASKS}"
    app.command(action.value, short_help=short, help=text)(verb)


_ASKS = "Many are counted first, and a question asked unless --yes is there."

_add(
    Action.REDRIVE,
    "Have entries sent at once.",
    "Have dead, held or pending entries sent at once; those in doubt are marked.",
)
_add(
    Action.DROP,
    "End entries without delivery.",
    "End dead, held or pending entries without delivery; later duplicates of them get 200.",
)
_add(
    Action.COMPLETE,
    "End entries that the consumer has.",
    "End dead, held or pending entries as delivered: a person has seen that the consumer has them.",
)
