"""`claims show` and `claims release`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gateway.core import operating
from gateway.core.operating import Refusal
from gateway.operating import meant
from gateway.operating.ending import ask, confirm, end, say, say_json
from gateway.operating.options import (
    BodyOption,
    ByOption,
    Event,
    IdArgument,
    KeyOption,
    OperationOption,
    ReasonOption,
    RouteOption,
    YesOption,
)
from gateway.operating.refused import about, why_released_not
from gateway.operating.story import Story, as_dict, as_text, is_batch, story
from gateway.operating.wording import visible
from gateway.options import ConfigOption, JsonOption
from gateway.process import FOUND, USAGE
from gateway.store.operator import By, Desk

# More than one operation by one event id is rare, and they are only to be named.
MOST_FOUND = 3

app = typer.Typer(
    help="What is known of one event, and how to have it delivered once more.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(short_help="Tell the whole story of an event.")
def show(
    ids: IdArgument = None,
    route: RouteOption = None,
    operation: OperationOption = None,
    body: BodyOption = None,
    key: KeyOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell the story of an event: claim, attempts, doubt, entry, and what operators did about it.

    Exit 1 when nothing is known of it.
    """
    found = look(config, Event(tuple(ids or ()), route, body, key, tuple(operation or ())))
    if as_json:
        say_json(as_dict(found))
    if found.is_empty:
        end(FOUND, unknown(found))
    if not as_json:
        say(as_text(found))


@app.command(short_help="Let the next delivery of a completed event through, marked.")
def release(
    ids: IdArgument = None,
    route: RouteOption = None,
    operation: OperationOption = None,
    body: BodyOption = None,
    key: KeyOption = None,
    by: ByOption = None,
    reason: ReasonOption = None,
    attempt: Annotated[
        int | None,
        typer.Option(
            help="Only if this is the latest one, as show says; asks nothing.",
            metavar="N",
            min=1,
        ),
    ] = None,
    yes: YesOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Free a completed claim: the next delivery of its event is forwarded once more, marked.

    Shows the claim and asks first, unless --attempt or --yes is there. Then have the provider send
    the event again: any delivery of it will do.
    """
    who = meant.by(by, reason)
    found = look(config, Event(tuple(ids or ()), route, body, key, tuple(operation or ())))
    if is_batch(found.known):
        end(USAGE, "this key is a batch's: release its events, each by its ID or key")
    if found.known.claim is None:
        end(FOUND, unknown(found))
    seen = attempt or found.known.claim.attempt
    tried = operating.release(found.known.claim, found.known.entry, seen)
    if isinstance(tried, Refusal):
        refused: Refusal | None = tried
        after = found
    else:
        if attempt is None:
            _agree(found, seen, yes=yes)
        refused, after = _released(config, found.known.key, seen, who)
    after = replace(after, operation=found.operation)
    if as_json:
        done = {"action": "release", "done": int(refused is None), "refused": refused}
        say_json({**done, "event": as_dict(after)})
    if refused is not None:
        end(FOUND, f"not released: {about(refused, after.known)}")
    if not as_json:
        say(f"released: the next delivery is forwarded, marked, as attempt {seen + 1}")


def look(config: Path | None, event: Event) -> Story:
    """The story of the event that the command line means, or the end of the command."""
    key = key_of(config, event)
    found = ask(config, lambda desk: story(desk, key))
    return replace(found, operation=meant.operation(config, found.route))


def key_of(config: Path | None, event: Event) -> bytes:
    """The key of the event that the command line means, or the end of the command."""
    found = meant.key(config, event)
    if not isinstance(found, meant.Kept):
        return found
    keys = ask(config, lambda desk: _find(desk, found))
    if not keys:
        end(FOUND, _not_kept(found, ",".join(event.ids)))
    if len(keys) > 1:
        several = " or ".join(f"--key {one.hex()}" for one in keys)
        end(FOUND, f"several claims keep this id; write {several}")
    return keys[0]


def _not_kept(kept: meant.Kept, event_id: str) -> str:
    others = ", and where it met the operation of another event --operation VALUE does"
    return (
        f"nothing is known of {visible(event_id)}: no claim of route {kept.route} keeps this id;"
        f" --body FILE finds one without its id{others if kept.by_operation else ''}"
    )


async def _find(desk: Desk, kept: meant.Kept) -> list[bytes]:
    found = [await desk.find(kept.route, one, MOST_FOUND) for one in kept.event_ids]
    return [key for keys in found for key in keys]


def unknown(found: Story) -> str:
    """What to say of an event that nobody has seen."""
    return f"nothing is known of this event; its key is {visible(found.known.key.hex())}"


def _agree(found: Story, attempt: int, *, yes: bool) -> None:
    """A person who has seen it agrees, or the command ends."""
    if not yes:
        typer.echo(as_text(found) + "\n", err=True)
    question = f"Release it after attempt {attempt}?"
    confirm(question, yes=yes, otherwise=f"--attempt {attempt} or --yes")


def _released(
    config: Path | None, key: bytes, attempt: int, by: By
) -> tuple[Refusal | None, Story]:
    async def work(desk: Desk) -> tuple[Refusal | None, Story]:
        done = await desk.release(key, attempt, by)
        after = await story(desk, key)
        return (None if done else why_released_not(after.known, attempt)), after

    return ask(config, work)
