"""The fakes. Claims and entries in memory are the core model itself, so they cannot drift."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gateway.core import claim, inbox
from gateway.core.claim import Arrival, Ask, Claim, Held, Seen, Settled, Settlement, State
from gateway.core.event import EventKey
from gateway.core.inbox import (
    Accepted,
    Conclusion,
    Entry,
    EntryEnding,
    EntryState,
    Leased,
    Offer,
    Unclaimed,
    Waiting,
)
from gateway.core.outcome import Reply


@dataclass
class Row:
    """An entry with its delivery."""

    entry: Entry
    offer: Offer
    ordered_after: int | None = None
    """So many attempts had been made when a person had it sent once more."""


class MemoryClaims:
    """Claims and entries of all processes, under a clock that moves by assignment."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        """Epoch seconds."""
        self.rows: dict[bytes, Claim] = {}
        self.entries: dict[bytes, Row] = {}
        self.orders: set[tuple[bytes, int]] = set()
        """Keys that an operator released, and after which attempt."""
        self.asked = 0

    async def arrive(self, ask: Ask, *, within: float) -> Arrival:
        self.asked += 1
        row, arrival = claim.arrive(self.rows.get(ask.key.digest), ask, self.now)
        self.rows[ask.key.digest] = row
        if isinstance(arrival, Seen) and row.state is State.STORED:
            entry = self.entry(ask.key)
            dead = entry is not None and entry.state is EntryState.DEAD
            return replace(arrival, dead=dead)
        return arrival

    async def settle(self, settlement: Settlement) -> Settled:
        digest = settlement.key.digest
        row, settled = claim.settle(self.rows.get(digest), settlement, self.now)
        if row is not None:
            self.rows[digest] = row
        if row is not None and row.state is State.COMPLETED and digest in self.entries:
            done = Conclusion(
                settlement.key, settlement.route, settlement.token, settlement.fingerprint,
                EntryEnding.DELIVER, False, 0.0, "",
            )  # fmt: skip
            await self.conclude(done)
        return settled

    async def accept(
        self, offer: Offer, *, has_room: bool, within: float
    ) -> Accepted | Seen | Held | Unclaimed:
        digest = offer.key.digest
        before, entry = self.rows.get(digest), self.entry(offer.key)
        if before is None and not has_room:
            return Unclaimed()
        row, after, stored = inbox.accept(before, entry, offer, self.now)
        assert row is not None
        self.rows[digest] = row
        if stored and after is not None:
            self._keep(offer, entry, after)
            return Accepted(self.now)
        if row.is_open(self.now):
            return Unclaimed()
        same_body = row.fingerprint == offer.fingerprint
        if row.state is State.CLAIMED:
            return Held(same_body, self.now)
        if row.state is State.STORED and entry is not None and entry.token == offer.token:
            return Accepted(self.now)
        dead = row.state is State.STORED and entry is not None and entry.state is EntryState.DEAD
        return Seen(row.first_seen, same_body, self.now, row.state is State.STORED, dead)

    async def store(self, offer: Offer, *, within: float) -> bool:
        digest = offer.key.digest
        before = self.entry(offer.key)
        row, entry, stored = inbox.store(self.rows.get(digest), before, offer, self.now)
        if stored and row is not None and entry is not None:
            self.rows[digest] = row
            self._keep(offer, before, entry)
        return stored

    async def lease(
        self, route: str, most: int, token: int, seconds: float, *, newest: bool
    ) -> list[Leased]:
        taken: list[Leased] = []
        mine = [row for row in self.entries.values() if row.offer.route == route]
        for row in sorted(mine, key=lambda row: row.entry.due, reverse=newest):
            if len(taken) == most:
                break
            digest, lapsed = row.offer.key.digest, row.entry.state is EntryState.LEASED
            entry = inbox.lease(row.entry, self.rows.get(digest), token, seconds, self.now)
            if entry is not None:
                row.entry = entry
                by_order = row.ordered_after == entry.attempt - 1
                leased = _leased(row.offer, entry, self.now, took_over=lapsed)
                taken.append(leased._replace(by_order=by_order))
        return taken

    async def conclude(self, conclusion: Conclusion) -> Settled:
        digest = conclusion.key.digest
        row, entry, settled = inbox.conclude(
            self.rows.get(digest), self.entry(conclusion.key), conclusion, self.now
        )
        if row is not None:
            self.rows[digest] = row
        if entry is not None:
            self.entries[digest].entry = entry
        return settled

    async def revive(self, offer: Offer) -> bool:
        entry, revived = inbox.revive(self.entry(offer.key), self.now)
        if revived and entry is not None:
            self._keep(offer, None, entry)
        return revived

    def put(self, offer: Offer, due: float) -> None:
        """An event that was stored by somebody, some time ago."""
        row, entry, _ = inbox.accept(None, None, offer, self.now)
        assert row is not None
        assert entry is not None
        self.rows[offer.key.digest] = row
        self.entries[offer.key.digest] = Row(replace(entry, due=due), offer)

    def redrive(self, key: EventKey) -> None:
        """A person has an entry sent once more."""
        row = self.entries[key.digest]
        row.entry = replace(row.entry, state=EntryState.PENDING, since=self.now, due=self.now)
        row.ordered_after = row.entry.attempt

    async def released(self, key: EventKey, attempt: int) -> bool:
        return (key.digest, attempt) in self.orders

    async def due(self, routes: Iterable[str]) -> frozenset[str]:
        wanted = frozenset(routes)
        return frozenset(
            row.offer.route
            for row in self.entries.values()
            if row.offer.route in wanted and row.entry.is_due(self.now)
        )

    async def waiting(self) -> Mapping[tuple[str, EntryState], Waiting]:
        raise NotImplementedError("conversations look at the entries themselves")

    async def forget(self, route: str, kept: float, most: int) -> int:
        raise NotImplementedError("conversations keep everything")

    def entry(self, key: EventKey) -> Entry | None:
        row = self.entries.get(key.digest)
        return None if row is None else row.entry

    def _keep(self, offer: Offer, before: Entry | None, after: Entry) -> None:
        if after is not before:
            self.entries[offer.key.digest] = Row(after, offer)


def _leased(offer: Offer, entry: Entry, now: float, *, took_over: bool) -> Leased:
    return Leased(
        offer.key, offer.route, entry.token, entry.attempt, entry.doubtful, offer.fingerprint,
        now - entry.since, now, offer.delivery, took_over,
    )  # fmt: skip


class MemoryReplies:
    """First replies."""

    def __init__(self) -> None:
        self.kept: dict[bytes, Reply] = {}

    async def keep(self, key: EventKey, reply: Reply) -> None:
        self.kept.setdefault(key.digest, reply)

    async def recall(self, key: EventKey) -> Reply | None:
        return self.kept.get(key.digest)
