"""The store: claims, entries and replies in Postgres, and whether it is there.

It starts while Postgres is away, finds out by itself when it is back, and needs no restart. Health
comes from traffic; without traffic a check asks the question that matters: is there a server that
we may write to, with our schema on it?
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import asyncpg

from gateway.core.claim import Arrival, Ask, Held, Seen, Settled, Settlement
from gateway.core.event import EventKey
from gateway.core.inbox import (
    Accepted,
    Conclusion,
    EntryEnding,
    EntryState,
    Leased,
    Offer,
    Unclaimed,
    Waiting,
)
from gateway.core.observing import Noted
from gateway.core.outcome import Reply
from gateway.store.claims import Claims
from gateway.store.durability import STATEMENT, Durability
from gateway.store.entries import Entries
from gateway.store.inbox import Inbox
from gateway.store.items import Items
from gateway.store.migrate import migrate, newest
from gateway.store.multihost import CONNECT_ERRORS, parse
from gateway.store.observations import Observations
from gateway.store.queries import read
from gateway.store.replies import Replies
from gateway.store.retention import Retention
from gateway.store.routes import Routes
from gateway.store.session import Aborted, Lost, NoSession, Sessions
from gateway.store.table import Table

# Between two checks while all is well, in seconds; traffic that succeeds makes them unnecessary.
CHECK_EVERY = 1.0
# Between two checks while it is away: doubles from the first to the last, with jitter.
FIRST_RETRY, LAST_RETRY = 0.1, 1.0


class Store:
    """Satisfies the flow's Claims, Inbox and Replies.

    `keep_ids`: whether the ids are kept as text beside their digests. `clock`: monotonic seconds.
    `on_error` is told a bounded kind of each failure, `on_statement` the name, seconds and number
    of keys of each statement. Raises ValueError for a DSN that cannot be read.
    """

    def __init__(
        self,
        dsn: str,
        *,
        keep_ids: bool,
        clock: Callable[[], float],
        on_error: Callable[[str], None],
        on_statement: Callable[[str, float, int], None],
    ) -> None:
        self._dsn = dsn
        self._clock = clock
        self._sessions = Sessions(parse(dsn), clock, on_error, on_statement)
        self._routes = Routes(self._sessions)
        table = Table(self._sessions, self._routes, clock, keep_ids=keep_ids)
        self._claims = Claims(table, clock)
        self._inbox = Inbox(table, clock)
        self._items = Items(table, clock)
        self._entries = Entries(table, self._sessions)
        self._observations = Observations(table, self._sessions)
        self._replies = Replies(self._sessions, clock)
        self.retention = Retention(table, self._sessions)
        """What concerns the memory as a whole."""
        self._health = read("routes.sql")["health"]
        self._needs = newest()
        self._may_migrate = True
        self._had_schema = False
        self.losses = 0
        """How often the schema, and every event with it, was gone after it had been there."""
        self.risks: tuple[str, ...] = ()
        """How the server that was found last may lose what it confirmed."""
        self.migrated: tuple[str, ...] = ()
        """The migrations that this process has applied."""
        self._keeper: asyncio.Task[None] | None = None
        self._looked = asyncio.Event()

    @property
    def away_since(self) -> float | None:
        """Monotonic seconds since when it cannot be used; None while it can."""
        return self._sessions.away_since

    @property
    def problem(self) -> str | None:
        """What is wrong and, where a person has to act, what to do; None while all is well."""
        return None if self._sessions.away_since is None else self._sessions.why

    async def start(self) -> None:
        """Connect in the background. Never raises because Postgres is away."""
        self._keeper = asyncio.create_task(self._keep())

    async def first_look(self, within: float) -> None:
        """Until it is known whether the store can be used, or so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._looked.wait()

    async def stop(self) -> None:
        """Close everything. Calls that are still waiting raise StoreAway."""
        if self._keeper:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        await self._claims.close()
        await self._inbox.close()
        await self._items.close()
        await self._replies.close()
        await self._sessions.close()

    async def register(self, recipes: Mapping[str, bytes]) -> None:
        """Make routes known by name and recipe print; at once if the store is there, else later."""
        self._routes.register(recipes)
        if self.away_since is None:
            with suppress(NoSession, Aborted):  # arrivals ask again, and the check does
                await self._routes.resolve()

    def arrive(self, ask: Ask, *, within: float) -> Awaitable[Arrival]:
        """One delivery meets the claims. Raises StoreAway after `within` seconds at the latest."""
        return self._claims.arrive(ask, within=within)

    async def arrive_all(self, asks: Sequence[Ask], *, within: float) -> list[Arrival]:
        """The items of a batch meet the claims, in the order of the asks.

        Raises as `arrive`, after what many items need beside.
        """
        return await self._items.arrive(asks, within=within)

    def settle(self, settlement: Settlement) -> Awaitable[Settled]:
        """A holder ends its claim, or its items'. Raises StoreAway within about a second."""
        if settlement.items:
            return self._items.settle(settlement)
        return self._claims.settle(settlement)

    def accept(
        self, offer: Offer, *, has_room: bool, within: float
    ) -> Awaitable[Accepted | Seen | Held | Unclaimed]:
        """Store an event without a claim. Raises StoreAway as `arrive`; large bodies take more."""
        return self._inbox.accept(offer, has_room=has_room, within=within)

    def store(self, offer: Offer, *, within: float) -> Awaitable[bool]:
        """The holder gives its claim to the inbox; False when it is lost. Raises as `accept`."""
        if offer.items:
            return self._items.store(offer, within=within)
        return self._inbox.store(offer, within=within)

    def conclude(self, conclusion: Conclusion) -> Awaitable[Settled]:
        """A worker ends its attempt. Raises StoreAway within about a second."""
        if conclusion.items and conclusion.ending is EntryEnding.DELIVER:
            return self._items.deliver(conclusion)
        return self._inbox.conclude(conclusion)

    async def lease(
        self, route: str, most: int, token: int, seconds: float, *, newest: bool
    ) -> list[Leased]:
        """Up to `most` due entries under a token of their own. Raises StoreAway."""
        return await self._entries.lease(route, most, token, seconds, newest=newest)

    async def revive(self, offer: Offer) -> bool:
        """Make a dead entry due, with new bytes unless it is a batch's. Raises StoreAway.

        False when there is none any more.
        """
        if offer.items:
            return await self._items.revive(offer.route, [part.key for part in offer.items])
        if await self._inbox.revive(offer):
            return True
        return await self._items.revive(offer.route, [offer.key])  # it came with a batch, perhaps

    async def released(self, key: EventKey, attempt: int) -> bool:
        """Whether a person freed the event's claim after that attempt. Raises StoreAway."""
        return await self._entries.released(key, attempt)

    async def due(self, routes: Iterable[str]) -> frozenset[str]:
        """The routes among these that have something to send. Raises StoreAway."""
        return await self._entries.due(routes)

    async def waiting(self) -> Mapping[tuple[str, EntryState], Waiting]:
        """Undelivered entries of registered routes, by route and state. Raises StoreAway."""
        return await self._entries.waiting()

    async def orphans(self, names: Iterable[str]) -> dict[str, int]:
        """Undelivered entries of all routes but these, by name. Raises StoreAway."""
        return await self._entries.orphans(names)

    async def forget(self, route: str, kept: float, most: int) -> int:
        """Delete up to `most` entries that ended over `kept` seconds ago. Raises StoreAway."""
        return await self._entries.forget(route, kept, most)

    async def note(self, series: int, noted: Sequence[Noted]) -> None:
        """Store what was noted in observe; repeating it is harmless. Raises StoreAway."""
        await self._observations.note(series, noted)

    async def forget_notes(self, most: int) -> int:
        """Delete up to `most` notes that are over 90 days old. Raises StoreAway."""
        return await self._observations.forget(most)

    async def keep(self, key: EventKey, reply: Reply, *, anew: bool = False) -> None:
        """Keep a first reply; `anew`: in place of one before. Raises StoreAway within a second."""
        await self._replies.keep(key, reply, anew=anew)

    async def recall(self, key: EventKey) -> Reply | None:
        """A first reply; None when none was kept. Raises StoreAway within about a second."""
        return await self._replies.recall(key)

    async def check_once(self) -> None:
        """Find out whether the store can be used, and make it so where that needs a migration."""
        try:
            ((version, read_only, lacks),) = await self._sessions.ask(self._health)
            if read_only:
                self._sessions.is_away("the server is read-only")
                self._sessions.expire()
                return
            if version >= self._needs and lacks:
                self._sessions.is_away(
                    f"the role lacks {lacks}: run deploy/roles.sql again, as the owner"
                )
                return
            if version >= self._needs:
                self._had_schema = True
                await self._routes.resolve()
                if self.away_since is not None:  # another server, perhaps
                    (row,) = await self._sessions.ask(STATEMENT)
                    self.risks = Durability(*row).risks
                self._sessions.is_up()
                return
        except (NoSession, Lost):  # which said why already
            return
        except Aborted as aborted:
            if aborted.kind != "schema":
                self._sessions.is_away(f"the store refuses us: {aborted}")
                return
            version = 0
            self.losses += self._had_schema
            self._had_schema = False
            self._routes.forget()
        await self._migrate(version)

    async def _migrate(self, version: int) -> None:
        command = (
            f"schema is at version {version}, this release needs {self._needs}:"
            " run `dedup-gateway migrate`"
        )
        self._sessions.is_away(command)
        if not self._may_migrate:
            return
        try:
            self.migrated += tuple(await migrate(self._dsn))
        except CONNECT_ERRORS as error:
            self._may_migrate = not isinstance(error, asyncpg.InsufficientPrivilegeError)
            self._sessions.is_away(f"{command} ({error})")

    async def _keep(self) -> None:
        retry = FIRST_RETRY
        while True:
            if not self._is_known_to_work():
                await self.check_once()
                self._looked.set()
            if self.away_since is None:
                retry = FIRST_RETRY
                await asyncio.sleep(CHECK_EVERY)
            else:
                await asyncio.sleep(retry * random.uniform(0.5, 1))
                retry = min(retry * 2, LAST_RETRY)

    def _is_known_to_work(self) -> bool:
        return self.away_since is None and self._clock() - self._sessions.last_success < CHECK_EVERY
