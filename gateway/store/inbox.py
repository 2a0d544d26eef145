"""The inbox in Postgres: events that are owed, each with the whole delivery as it came.

The rules are those of `gateway/core/inbox.py`; inbox.sql decides who wins. Storing and concluding
leave as batches like claims; what workers ask for by themselves goes out one by one. Bodies are
heavy, so a batch is bounded by bytes too, and a statement has the time that its bytes need.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import NamedTuple

from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Held, Seen, Settled
from gateway.core.inbox import Accepted, Conclusion, EntryEnding, Offer, Unclaimed
from gateway.store.batch import Batch, Group
from gateway.store.claims import DURABLE, SETTLE_WITHIN, STORED, is_marked, is_same_event
from gateway.store.deliveries import LETTERS, all_columns, time_for, whole
from gateway.store.queries import ForMany, read
from gateway.store.session import TRY, Aborted, Record, Remedy, pause
from gateway.store.table import BYTE, CHANGED, NOTHING, Table

_ENDED = {
    EntryEnding.RETRY: b"p",
    EntryEnding.HAND_BACK: b"p",
    EntryEnding.BURY: b"x",
    EntryEnding.HOLD: b"h",
}
_UNSENT = (EntryEnding.HAND_BACK, EntryEnding.HOLD)


class Wish(NamedTuple):
    """An offer, and whether the inbox takes more than duplicates."""

    offer: Offer
    has_room: bool


Told = Accepted | Seen | Held | Unclaimed
Wishes = list[Group[Wish, Told]]
Stores = list[Group[Offer, bool]]
Revivals = list[Group[Offer, bool]]
Conclusions = list[Group[Conclusion, Settled]]


class Inbox:
    """The entries table."""

    def __init__(self, table: Table, clock: Callable[[], float]) -> None:
        self._table = table
        statements = read("inbox.sql")
        self._accept_statement = ForMany(statements["accept"])
        self._store_statement = ForMany(statements["store"])
        self._put_back_statement = ForMany(statements["put_back"])
        self._revive_statement = ForMany(statements["revive"])
        self._accepts = Batch(
            self._accept, clock, apart=Batch(self._accept, clock), weigh=_weight_of_wish
        )
        self._stores = Batch(self._store, clock, apart=Batch(self._store, clock), weigh=weight)
        self._conclusions = Batch(self._conclude, clock, apart=Batch(self._conclude, clock))
        self._revivals = Batch(
            self._revive,
            clock,
            lanes=1,
            apart=Batch(self._revive, clock, lanes=1),
            weigh=weight,
        )

    def accept(self, offer: Offer, *, has_room: bool, within: float) -> asyncio.Future[Told]:
        """Store an event without a claim, claim included.

        StoreAway is raised here or by what is given back, after `within` seconds and what its bytes
        need; LookupError here, for a route that was never registered.
        """
        self._table.expect(offer.route)
        within += time_for(weight(offer))
        return self._accepts.call(offer.key.digest, Wish(offer, has_room), within)

    def store(self, offer: Offer, *, within: float) -> asyncio.Future[bool]:
        """The holder of a claim gives it to the inbox. StoreAway and LookupError as above."""
        self._table.expect(offer.route)
        within += time_for(weight(offer))
        return self._stores.call(offer.key.digest, offer, within)

    def conclude(self, conclusion: Conclusion) -> asyncio.Future[Settled]:
        """A worker ends its attempt. StoreAway within a second and LookupError as above."""
        self._table.expect(conclusion.route)
        return self._conclusions.call(conclusion.key.digest, conclusion, SETTLE_WITHIN)

    def revive(self, offer: Offer) -> asyncio.Future[bool]:
        """A delivery meets a dead entry; False when it is not dead any more.

        Its bytes replace the entry's, unless it is another event of the same operation.
        StoreAway within a second and what its bytes need, and LookupError as above.
        """
        self._table.expect(offer.route)
        within = SETTLE_WITHIN + time_for(weight(offer))
        return self._revivals.call(offer.key.digest, offer, within)

    async def close(self) -> None:
        """Fail what is still waiting."""
        await self._revivals.close()
        await self._accepts.close()
        await self._stores.close()
        await self._conclusions.close()

    async def _accept(self, groups: Wishes, wait: str) -> None:
        try:
            await self._accept_all(groups, wait)
        except Aborted as refused:
            if refused.remedy is not Remedy.GIVE_UP:
                raise
            # No more room on the disk, say. What is durable already can be told all the same.
            await self._accept_all(groups, wait, refused=str(refused))

    async def _accept_all(self, groups: Wishes, wait: str, refused: str | None = None) -> None:
        ids = await self._table.route_ids()
        offers = [group[0].item.offer for group in groups]
        rooms = [group[0].item.has_room and refused is None for group in groups]
        rows = await self._table.run(
            self._accept_statement,
            groups,
            wait,
            [UUID(offer.key.digest) for offer in offers],
            [ids[offer.route] for offer in offers],
            [offer.token for offer in offers],
            [BYTE[offer.fingerprint] for offer in offers],
            self._table.texts(offer.key.event_id for offer in offers),
            [whole(offer.key.event_id) for offer in offers],
            [LETTERS[offer.state] for offer in offers],
            [offer.lease for offer in offers],
            [offer.doubtful for offer in offers],
            rooms,
            *all_columns(offers, rooms),
            seconds=TRY + time_for(sum(map(weight, offers))),
        )
        again: Wishes = []
        for row, group, has_room in zip(rows, groups, rooms, strict=True):
            if refused is not None and row[2] is None:
                for call in group:
                    call.out = False
                    call.fail(refused)
            elif has_room and not row[0] and row[2] is None:
                # Lost to a row younger than our snapshot, or made for an entry of somebody else's.
                again.append(group)
            else:
                for call in group:
                    call.tell(_told(self._table, row, group[0].item, call.item))
        if again:
            await pause()
            await self._accepts.insist(again, self._accept, wait)

    async def _store(self, groups: Stores, wait: str) -> None:
        """Calls with one key take effect one after the other."""
        while groups:
            await self._store_firsts([group[:1] for group in groups], wait)
            groups = [group[1:] for group in groups if len(group) > 1]

    async def _store_firsts(self, groups: Stores, wait: str) -> None:
        offers = [group[0].item for group in groups]
        rows = await self._table.run(
            self._store_statement,
            groups,
            wait,
            [UUID(offer.key.digest) for offer in offers],
            [offer.token for offer in offers],
            [BYTE[offer.fingerprint] for offer in offers],
            [whole(offer.key.event_id) for offer in offers],
            [LETTERS[offer.state] for offer in offers],
            [offer.lease for offer in offers],
            [offer.doubtful for offer in offers],
            *all_columns(offers, [True for _ in offers]),
            seconds=TRY + time_for(sum(map(weight, offers))),
        )
        stored = {n - 1 for (n,) in rows}
        again: Stores = []
        for n, group in enumerate(groups):
            if n not in stored and group[0].lost:
                # The try before this may have stored it while we waited for its lock: the row that
                # says so is younger than our snapshot.
                group[0].lost = False
                again.append(group)
            else:
                group[0].tell(n in stored)
        if again:
            await self._stores.insist(again, self._store_firsts, wait)

    async def _revive(self, groups: Revivals, wait: str) -> None:
        """Of calls with one key, the first brings its bytes and the others find it done."""
        ids = await self._table.route_ids()
        offers = [group[0].item for group in groups]
        rows = await self._table.run(
            self._revive_statement,
            groups,
            wait,
            [UUID(offer.key.digest) for offer in offers],
            [ids[offer.route] for offer in offers],
            [BYTE[offer.fingerprint] for offer in offers],
            [whole(offer.key.event_id) for offer in offers],
            *all_columns(offers, [True for _ in offers]),
            seconds=TRY + time_for(sum(map(weight, offers))),
        )
        revived = {n - 1 for (n,) in rows}
        for n, group in enumerate(groups):
            for place, call in enumerate(group):
                call.tell(n in revived and place == 0)

    async def _conclude(self, groups: Conclusions, wait: str) -> None:
        """Calls with one key take effect one after the other."""
        while groups:
            delivered: Conclusions = []
            others: Conclusions = []
            for group in groups:
                ending = group[0].item.ending
                (delivered if ending is EntryEnding.DELIVER else others).append(group[:1])
            if delivered:
                await self._table.complete(delivered, wait)
            if others:
                await self._put_back(others, wait)
            groups = [group[1:] for group in groups if len(group) > 1]

    async def _put_back(self, groups: Conclusions, wait: str) -> None:
        ends = [group[0].item for group in groups]
        rows = await self._table.run(
            self._put_back_statement,
            groups,
            wait,
            [UUID(end.key.digest) for end in ends],
            [end.token for end in ends],
            [_ENDED[end.ending] for end in ends],
            [end.doubtful for end in ends],
            [end.ending in _UNSENT for end in ends],
            [end.pause for end in ends],
            [self._table.text(end.why) for end in ends],
        )
        changed = {n - 1 for (n,) in rows}
        for n, group in enumerate(groups):
            group[0].tell(CHANGED if n in changed else NOTHING)


def _told(table: Table, row: Record, first: Wish, wish: Wish) -> Told:
    """What the row tells a call; `first` is the call that went to the server for its group."""
    was_stored, is_open, state, attempt, _, fingerprint, first_seen, now, *more = row
    entry_token, dead, other_id = more
    offer, asked = wish.offer, first.offer
    if was_stored:
        if offer.token == asked.token:
            return Accepted(now)
        same_body = offer.fingerprint == asked.fingerprint
        same_event = offer.key.event_id == asked.key.event_id
        return Seen(math.floor(now), same_body, now, same_event, stored=True)
    if state is None or is_open:
        return Unclaimed()
    same_body = fingerprint == BYTE[offer.fingerprint] or is_marked(state, attempt)
    same_event = is_same_event(table, other_id, offer.key, asked=asked.key)
    if state not in DURABLE:
        return Held(same_body, now, same_event)
    if entry_token is not None and entry_token == offer.token:
        return Accepted(now)
    return Seen(first_seen, same_body, now, same_event, state in STORED, bool(dead))


def _weight_of_wish(wish: Wish) -> int:
    return weight(wish.offer)


def weight(offer: Offer) -> int:
    return len(offer.delivery.body)
