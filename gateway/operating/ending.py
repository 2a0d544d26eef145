"""How a command asks the store, and how it ends where it cannot."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import typer

from gateway import sources
from gateway.config import Embedded
from gateway.core.claim import StoreAway
from gateway.process import FOUND, STORE_AWAY, USAGE
from gateway.store import beside
from gateway.store.embedded import EmbeddedError
from gateway.store.operator import Desk, Locked, Unready, desk

T = TypeVar("T")


def ask(config: Path | None, work: Callable[[Desk], Awaitable[T]]) -> T:
    """What `work` finds at the configured store, or the end of the command."""
    shown = ""
    try:
        store = sources.store(config)
        shown = "embedded" if isinstance(store, Embedded) else str(store)
        dsn = beside.running(store.path) if isinstance(store, Embedded) else store.text
        return asyncio.run(_at(dsn, work))
    except EmbeddedError as error:
        end(STORE_AWAY, str(error))
    except StoreAway as away:
        end(STORE_AWAY, f"the store {shown} cannot be asked: {away}{_undecided(away)}")
    except Unready as error:
        end(USAGE, str(error))
    except Locked as error:
        end(FOUND, f"others hold these rows, and nothing was done: {error}; try again")


def confirm(question: str, *, yes: bool, otherwise: str = "--yes") -> None:
    """Ask at a terminal; where there is none, `--yes` has to be there. Else the command ends."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        end(USAGE, f"{question} Nobody is here to answer: write {otherwise} to have it done")
    if not typer.confirm(question, err=True):
        end(FOUND, "nothing was done")


def say(text: str) -> None:
    """On standard output."""
    typer.echo(text)


def say_json(document: Any) -> None:
    """ASCII: ids come from strangers, and a terminal obeys more than one wants."""
    say(json.dumps(document, indent=2))


def end(code: int, message: str) -> NoReturn:
    """With a sentence."""
    typer.echo(message, err=True)
    raise typer.Exit(code)


def _undecided(away: StoreAway) -> str:
    """An action that was cut off may be done; all of them are fenced, so doing it again is safe."""
    return "; what was under way may have been done, so look first" if away.undecided else ""


async def _at(dsn: str, work: Callable[[Desk], Awaitable[T]]) -> T:
    async with desk(dsn) as opened:
        return await work(opened)
