"""The fakes. Claims and entries in memory are the core model itself, so they cannot drift."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.core import batch_entry, claim, inbox
from gateway.core.claim import (
    Arrival,
    Ask,
    Claim,
    Ending,
    Held,
    Seen,
    Settled,
    Settlement,
    State,
)
from gateway.core.event import EventKey, Part
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
        self.items: dict[bytes, bytes] = {}
        """The keys of batches' items, and of the entry that each belongs to."""
        self.orders: set[tuple[bytes, int]] = set()
        """Keys that an operator released, and after which attempt."""
        self.asked = 0

    async def arrive(self, ask: Ask, *, within: float) -> Arrival:
        self.asked += 1
        return self._arrive(ask)

    async def arrive_all(self, asks: Sequence[Ask], *, within: float) -> list[Arrival]:
        self.asked += 1
        return [self._arrive(ask) for ask in asks]

    def _arrive(self, ask: Ask) -> Arrival:
        row, arrival = claim.arrive(self.rows.get(ask.key.digest), ask, self.now)
        self.rows[ask.key.digest] = row
        if isinstance(arrival, Seen) and row.state is State.STORED:
            return replace(arrival, dead=bool(self._dead(ask.key.digest)))
        return arrival

    async def settle(self, settlement: Settlement) -> Settled:
        parts = settlement.items or (Part(settlement.key, settlement.fingerprint),)
        mine = {
            part.key: batch_entry.is_held(self.rows.get(part.key.digest), settlement.token)
            for part in parts
        }
        changed = False
        for part in parts:
            if mine[part.key] or settlement.ending is not Ending.COMPLETE:
                one = settlement._replace(key=part.key, fingerprint=part.fingerprint)
                row, settled = claim.settle(self.rows.get(part.key.digest), one, self.now)
                changed |= settled.changed
                if row is not None:
                    self.rows[part.key.digest] = row
        late = tuple(part for part in parts if not mine[part.key])
        if settlement.ending is not Ending.COMPLETE or not late:
            return Settled(changed, late=False)
        # A success without claims of its own also closes the entry.
        done = Conclusion(
            settlement.key, settlement.route, settlement.token, settlement.fingerprint,
            EntryEnding.DELIVER, False, 0.0, "", late if settlement.items else (),
        )  # fmt: skip
        settled = await self.conclude(done)
        return Settled(changed or settled.changed, settled.late)

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
        same_body = claim.is_same_body(row, offer.fingerprint)
        same_event = claim.is_same_event(row, offer.key)
        if row.state is State.CLAIMED:
            return Held(same_body, self.now, same_event)
        is_stored = row.state is State.STORED
        if is_stored and entry is not None and entry.token == offer.token:
            return Accepted(self.now)
        dead = is_stored and bool(self._dead(digest))
        return Seen(row.first_seen, same_body, self.now, same_event, is_stored, dead)

    async def store(self, offer: Offer, *, within: float) -> bool:
        if offer.items:
            return self._store_batch(offer)
        digest = offer.key.digest
        before = self.entry(offer.key)
        row, entry, stored = inbox.store(self.rows.get(digest), before, offer, self.now)
        if stored and row is not None and entry is not None:
            self.rows[digest] = row
            self._keep(offer, before, entry)
        return stored

    def _store_batch(self, offer: Offer) -> bool:
        before = self.entry(offer.key)
        claims = self._claims(offer.items)
        mine = [part for part in offer.items if self._is_held(part, offer.token)]
        after, entry, stored = batch_entry.store(claims, before, offer, self.now)
        if stored and entry is not None:
            self._set(offer.items, after)
            self._keep(offer, before, entry)
            self.items.update((part.key.digest, offer.key.digest) for part in mine)
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
            if row.offer.items:
                items = tuple(p for p in row.offer.items if self.items.get(p.key.digest) == digest)
                entry = batch_entry.lease(row.entry, self._claims(items), token, seconds, self.now)
            else:
                items = ()
                entry = inbox.lease(row.entry, self.rows.get(digest), token, seconds, self.now)
            if entry is not None:
                row.entry = entry
                by_order = row.ordered_after == entry.attempt - 1
                leased = _leased(row.offer, entry, self.now, took_over=lapsed)
                taken.append(leased._replace(by_order=by_order, items=items))
            elif row.entry.is_due(self.now):  # but all of its events are completed
                row.entry = replace(row.entry, state=EntryState.DELIVERED)
        return taken

    async def conclude(self, conclusion: Conclusion) -> Settled:
        if conclusion.items:
            claims, entry, settled = batch_entry.conclude(
                self._claims(conclusion.items), self.entry(conclusion.key), conclusion, self.now
            )
            self._set(conclusion.items, claims)
            if entry is not None:
                self.entries[conclusion.key.digest].entry = entry
            return settled
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
        if offer.items:
            dead = {key for part in offer.items for key in self._dead(part.key.digest)}
            return any([self._revive_as_it_is(key) for key in dead])
        entry, revived = inbox.revive(self.entry(offer.key), self.now)
        if revived and entry is not None:
            kept = self.entries[offer.key.digest].offer
            own = kept.key.event_id != offer.key.event_id
            self._keep(kept if own else offer, None, entry)
            return True
        return any([self._revive_as_it_is(key) for key in self._dead(offer.key.digest)])

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

    def _claims(self, parts: Iterable[Part]) -> list[Claim | None]:
        return [self.rows.get(part.key.digest) for part in parts]

    def _is_held(self, part: Part, token: int) -> bool:
        return batch_entry.is_held(self.rows.get(part.key.digest), token)

    def _set(self, parts: Iterable[Part], claims: Iterable[Claim | None]) -> None:
        for part, row in zip(parts, claims, strict=True):
            if row is not None:
                self.rows[part.key.digest] = row

    def _dead(self, digest: bytes) -> list[bytes]:
        """The dead entries of an event: its own, and that of the batch which brought it."""
        rows = {key: self.entries.get(key) for key in (digest, self.items.get(digest)) if key}
        return [key for key, row in rows.items() if row and row.entry.state is EntryState.DEAD]

    def _revive_as_it_is(self, digest: bytes) -> bool:
        row = self.entries[digest]
        entry, revived = inbox.revive(row.entry, self.now)
        if entry is not None:
            row.entry = entry
        return revived

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

    async def keep(self, key: EventKey, reply: Reply, *, anew: bool = False) -> None:
        if anew or key.digest not in self.kept:
            self.kept[key.digest] = reply

    async def recall(self, key: EventKey) -> Reply | None:
        return self.kept.get(key.digest)
