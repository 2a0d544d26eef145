"""Comparing a list of somebody else's with the claims: in one transaction, by Postgres itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import asyncpg
from asyncpg.pgproto.pgproto import UUID

from gateway.core.auditing import (
    KINDS,
    Against,
    Asked,
    Listed,
    Remembered,
    Standing,
    Terms,
    terms,
)
from gateway.store.copying import copy
from gateway.store.deliveries import as_it_was, whole
from gateway.store.known import CLAIMS
from gateway.store.operator import Desk
from gateway.store.queries import read
from gateway.store.table import KEPT_CHARACTERS

# Seconds. Of a million rows and ten million claims the longest statement took 13 on a busy machine
# of two cores, and all of them 26; a person waits for an audit.
LONGEST = 600
# So many findings come with one trip.
FETCHED = 2_000
# Beside standings: doubles whose claim is doubtful.
ANNOUNCED = "announced"
# For this transaction: a million rows are grouped and joined, and Postgres' own 4 MB are for many
# sessions at once. Here there is one.
MEMORY = "64MB"


class Listing(NamedTuple):
    """One row of the list."""

    key: bytes
    event_id: str
    at: float | None
    """Epoch seconds."""
    line: int


class Found(NamedTuple):
    """One thing that is wrong. Epoch seconds; what a list or a claim does not say is None."""

    kind: str
    key: bytes
    event_id: str | None
    """None where claims keep no ids."""
    first: float | None
    """Of the list's rows the earliest, else of the claim when it was seen first."""
    last: float | None
    """The latest, or when the claim was completed at the latest."""
    number: int | None
    """How many rows of the list."""
    line: int | None
    """The first of them."""
    state: str | None
    """Of the claim."""
    doubtful: bool
    attempt: int | None
    action: str | None
    """What an operator did last about its event; `backfill` where that made the claim."""
    route: str | None
    """Which one took the claim, where the list has the event."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be compared."""

    route: str
    print: bytes
    """Of the recipe by which the list's keys were made."""
    against: Against
    asked: Asked
    partial: bool
    """The list lacks some kinds of events: claims that it lacks say nothing."""
    began: float
    """On the database's clock, before the list was read."""
    retention: float
    """Seconds, where the store does not say."""
    lease: float
    """Seconds."""
    sample: int | None
    """So many findings of each kind; None for all."""
    seed: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What came out."""

    terms: Terms
    listed: Listed
    """All rows together."""
    of_list: Mapping[str, int]
    """Events of the list by standing, doubles besides, and those that were announced."""
    of_claims: Mapping[str, int]
    """Claims that the list lacks, by standing."""
    claims: int
    """All that the route took within the window."""
    routes: Mapping[str, int]
    """By which route the claims of the list's events were taken."""
    operations: int
    """How many keys are those of several events."""
    same_key: bool
    """Whether the store has the list's recipe on record for the route."""

    def found(self, kind: Standing) -> int:
        """How many of one kind are wrong."""
        return self.of_list.get(kind, 0) + self.of_claims.get(kind, 0)

    @property
    def total(self) -> int:
        """How many of all kinds are wrong."""
        return sum(self.found(kind) for kind in KINDS[self.terms.against])


async def compare(
    desk: Desk, question: Question, listing: Iterable[Listing], tell: Callable[[Found], None]
) -> Answer:
    """Compare them. `tell` gets what is wrong, one by one.

    Raises what a Desk does.
    """
    comparison = _Comparison(desk, question)
    async with desk.transaction(LONGEST, isolation="repeatable_read") as sql:
        await comparison.take(sql, listing)
        answer = await comparison.judge(sql)
        async for found in comparison.found(sql):
            tell(found)
    return answer


class _Comparison:
    def __init__(self, desk: Desk, question: Question) -> None:
        self._question = question
        self._route = desk.routes[question.route]
        self._names = {number: name for name, number in desk.routes.items()}
        self._statements = read("audit.sql")

    async def take(self, sql: asyncpg.Connection, listing: Iterable[Listing]) -> None:
        """The list, into a table of this transaction; from then on nothing else is written."""
        await sql.execute(f"select set_config('work_mem', '{MEMORY}', true)")
        for name in ("start", "start_events", "start_claims"):
            await sql.execute(self._statements[name].sql)
        await sql.execute("select set_config('transaction_read_only', 'on', true)")
        rows = (
            (UUID(one.key), whole(one.event_id[:KEPT_CHARACTERS]), one.at, one.line)
            for one in listing
        )
        await copy(sql, "audit_rows", rows)
        await sql.execute("analyze audit_rows")

    async def judge(self, sql: asyncpg.Connection) -> Answer:
        question = self._question
        (row,) = await self._fetch(sql, "remembered", self._route)
        listed = Listed(row["number"], row["first"], row["last"])
        memory = _remembered(row, question.retention)
        agreed = terms(
            question.against, question.asked, memory, listed, question.began, question.lease
        )
        window = (agreed.since, agreed.until)
        await self._fetch(
            sql, "judge_events", agreed.against.value, *window,
            agreed.begins, agreed.began, agreed.edge, agreed.undated_inside,
        )  # fmt: skip
        await sql.execute("analyze audit_events")
        if not question.partial:
            await self._fetch(
                sql, "judge_claims", agreed.against.value, *window, agreed.edge, self._route
            )
        of_list, of_claims = await self._counts(sql)
        (outside,) = await self._fetch(sql, "outside", self._route, *window)
        of_claims |= {"before": outside["before"], "after": outside["after"]}
        (several,) = await self._fetch(sql, "operations")
        routes = {
            self._name(row["route"]): row["number"] for row in await self._fetch(sql, "shared")
        }
        return Answer(
            terms=agreed,
            listed=listed,
            of_list=of_list,
            of_claims=of_claims,
            claims=outside["inside"],
            routes=routes,
            operations=several["number"],
            same_key=row["recipe"] == question.print,
        )

    async def found(self, sql: asyncpg.Connection) -> Any:
        kinds = [kind.value for kind in KINDS[self._question.against]]
        asked = (kinds, self._question.sample, self._question.seed)
        async for row in sql.cursor(self._statements["found"].sql, *asked, prefetch=FETCHED):
            yield self._found(row)

    async def _counts(self, sql: asyncpg.Connection) -> tuple[dict[str, int], dict[str, int]]:
        of_list: dict[str, int] = {}
        of_claims: dict[str, int] = {}
        for is_listed, standing, number in await self._fetch(sql, "counts"):
            (of_list if is_listed else of_claims)[standing] = number
        return of_list, of_claims

    async def _fetch(
        self, sql: asyncpg.Connection, name: str, *arguments: Any
    ) -> list[asyncpg.Record]:
        rows: list[asyncpg.Record] = await sql.fetch(self._statements[name].sql, *arguments)
        return rows

    def _found(self, row: Mapping[str, Any]) -> Found:
        state: bytes | None = row["state"]
        listed = row["event_id"]
        return Found(
            kind=row["kind"],
            key=row["key"].bytes,
            event_id=row["kept_id"] if listed is None else as_it_was(listed),
            first=row["first"],
            last=row["last"],
            number=row["number"],
            line=row["line"],
            state=None if state is None else CLAIMS[state.lower()].value,
            doubtful=state is not None and state.isupper(),
            attempt=None if state is None else row["attempt"],
            action=row["action"],
            route=None if row["route"] is None else self._name(row["route"]),
        )

    def _name(self, number: int) -> str:
        return self._names.get(number, f"#{number}")


def _remembered(row: Mapping[str, Any], otherwise: float) -> Remembered:
    retention = otherwise if row["retention"] is None else row["retention"]
    return Remembered(row["born"], row["since"], row["oldest"], row["cut_off"], retention)
