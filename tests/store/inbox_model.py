"""Claims and entries as the core model has them, for histories that a store lives as well."""

from __future__ import annotations

import math
from dataclasses import replace

from gateway.core import claim as claims
from gateway.core import inbox as entries
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
    Won,
)
from gateway.core.event import EventKey
from gateway.core.inbox import (
    Accepted,
    Conclusion,
    Entry,
    EntryEnding,
    EntryState,
    Offer,
    Unclaimed,
)
from tests.store.stores import Told, conclusion, fresh_offer


class Model:
    """Both rows of each key, and what each call is told of them. `first_seen` in whole seconds."""

    def __init__(self, keys: list[EventKey]) -> None:
        self.claims: dict[EventKey, Claim | None] = dict.fromkeys(keys)
        self.entries: dict[EventKey, Entry | None] = dict.fromkeys(keys)
        self.seen: set[str] = set()
        """What came about at least once, so that a history cannot pass by being dull."""

    def claim(self, key: EventKey) -> Claim | None:
        claim = self.claims[key]
        return claim and replace(claim, first_seen=float(math.floor(claim.first_seen)))

    def arrive(self, ask: Ask, now: float) -> Arrival:
        after, told = claims.arrive(self.claims[ask.key], ask, now)
        self.claims[ask.key] = after
        if isinstance(told, Seen):
            told = replace(told, dead=self._is_dead(ask.key))
        if isinstance(told, Seen | Won):
            told = replace(told, first_seen=float(math.floor(told.first_seen)))
        return told

    def settle(self, end: Settlement, now: float) -> Settled:
        before = self.claims[end.key]
        if end.ending is Ending.COMPLETE and (before is None or before.token != end.token):
            # A success without a claim of its own also closes the entry.
            offer = fresh_offer(end.key, token=end.token, fingerprint=end.fingerprint)
            return self.conclude(conclusion(offer, EntryEnding.DELIVER), now)
        self.claims[end.key], settled = claims.settle(before, end, now)
        return settled

    def accept(self, offer: Offer, now: float, *, has_room: bool) -> Told:
        claim, entry = self.claims[offer.key], self.entries[offer.key]
        if claim is None and not has_room:
            return Unclaimed()
        self.claims[offer.key], self.entries[offer.key], made = entries.accept(
            claim, entry, offer, now
        )
        if made:
            return Accepted(now)
        claim = self.claims[offer.key]
        assert claim is not None
        if claim.is_open(now):
            return Unclaimed()
        same_body = claims.is_same_body(claim, offer.fingerprint)
        same_event = claims.is_same_event(claim, offer.key)
        if claim.state is State.CLAIMED:
            return Held(same_body, now, same_event)
        if claim.state is State.STORED and entry is not None and entry.token == offer.token:
            self.seen.add("an offer was repeated")
            return Accepted(now)
        first_seen = float(math.floor(claim.first_seen))
        stored = claim.state is State.STORED
        return Seen(first_seen, same_body, now, same_event, stored, self._is_dead(offer.key))

    def store(self, offer: Offer, now: float) -> bool:
        self.claims[offer.key], self.entries[offer.key], stored = entries.store(
            self.claims[offer.key], self.entries[offer.key], offer, now
        )
        if stored:
            self.seen.add("a claim was stored")
        return stored

    def lease(self, key: EventKey, token: int, seconds: float, now: float) -> Entry | None:
        """The entry before, where the worker gets it."""
        before = self.entries[key]
        if before is None:
            return None
        after = entries.lease(before, self.claims[key], token, seconds, now)
        if after is not None:
            self.entries[key] = after
            took_over = before.state is EntryState.LEASED
            self.seen.add("a lapsed lease was taken over" if took_over else "an entry was leased")
            return before
        if before.is_due(now):  # but its event is completed
            self.seen.add("an entry was found over")
            self.entries[key] = replace(before, state=EntryState.DELIVERED)
        return None

    def conclude(self, end: Conclusion, now: float) -> Settled:
        self.claims[end.key], self.entries[end.key], settled = entries.conclude(
            self.claims[end.key], self.entries[end.key], end, now
        )
        if settled == Settled(True, False):
            self.seen.add(end.ending)
        return settled

    def revive(self, key: EventKey, now: float) -> bool:
        self.entries[key], revived = entries.revive(self.entries[key], now)
        if revived:
            self.seen.add("an entry was revived")
        return revived

    def _is_dead(self, key: EventKey) -> bool:
        claim, entry = self.claims[key], self.entries[key]
        dead = (
            claim is not None
            and claim.state is State.STORED
            and entry is not None
            and entry.state is EntryState.DEAD
        )
        if dead:
            self.seen.add("a dead entry was met")
        return dead
