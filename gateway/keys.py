"""Keys: the public keys of providers, read from files and fetched from URLs, kept within bounds.

A set is fetched again once it is 45 minutes old, and nobody waits for that. While its server is
away the old one stays in use, until it is a day old. A key id that is not in a set may be a new one
or a forger's, so it asks for the set, once a minute at the most: a set that was read within that
minute has the last word, an older one has none. All who wait for one URL share one fetch.

Certificates that deliveries name are the sender's choice among the URLs that a scheme allows, so
only so many are kept, and only so many new ones are asked for. Forged names can use that share up,
so that a certificate which nobody has had yet cannot be told from them, and its deliveries are told
to come again; one that was had stays. A certificate among the route's own keys needs none of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from gateway.config.local_keys import from_file
from gateway.config.senders import is_url
from gateway.core.signature import Unchecked
from gateway.providers.keyset import Fixed, Keys, Source, named, parse

log = logging.getLogger("gateway.app")

Fetch = Callable[[str], Awaitable[bytes]]
"""Gets a document. Raises FetchError."""
Clock = Callable[[], float]
"""Monotonic seconds."""

# Providers publish a key long before they sign with it, and what they revoke should not be believed
# for more than an hour while their server can be reached: the rest of it is for tries that fail.
FRESH = 2700.0
# Long enough for a bad night at the provider's, and then nobody is believed for old times' sake.
OLDEST = 86_400.0
# How often a key id that is in no set may ask for it again.
ASKED_AGAIN = 60.0
# After a fetch that failed: deliveries are told to come again, and the next one asks.
AFTER_FAILURE = 10.0
# Between two looks at what is due.
LOOK = 60.0
# SNS has one certificate a region at a time, PayPal two.
MOST_CERTIFICATES = 32
NEW_CERTIFICATES_A_MINUTE = 10


class FetchError(Exception):
    """A document could not be had."""


class Published:
    """The keys at one URL."""

    def __init__(
        self,
        url: str,
        fetch: Fetch,
        clock: Clock,
        start: Callable[..., asyncio.Task[None]],
        after_failure: float = AFTER_FAILURE,
    ) -> None:
        """`after_failure`: seconds from a fetch that failed to the next."""
        self._url, self._fetch, self._clock, self._start = url, fetch, clock, start
        self._after_failure = after_failure
        self._keys: Keys = ()
        self._read_at: float | None = None
        self._asked_at: float | None = None
        self._under_way: asyncio.Task[None] | None = None
        self._why = "they were not fetched yet"

    async def find(self, kid: str | None) -> Keys | Unchecked:
        """All keys there, as new as it takes to tell whether one is called `kid`."""
        if self._age() > FRESH:
            self._begin(self._after_failure)
        if not self.is_known:
            await self._ask(self._after_failure)
        if not named(self._keys, kid):
            await self._ask(ASKED_AGAIN)
        age = self._age()
        known = bool(named(self._keys, kid))
        if age > (OLDEST if known else ASKED_AGAIN):
            return Unchecked(f"the keys at {_shown(self._url)} cannot be had: {self._why}")
        return self._keys

    @property
    def is_known(self) -> bool:
        """Whether there are keys that may still be used."""
        return self._age() <= OLDEST

    async def renew(self) -> None:
        """Fetch them, or look at them again, when it is time."""
        if self._age() > FRESH:
            await self._ask(self._after_failure)

    def _age(self) -> float:
        return float("inf") if self._read_at is None else self._clock() - self._read_at

    async def _ask(self, pause: float) -> None:
        """Wait for the fetch that is under way, or for one more if the last is long enough ago."""
        self._begin(pause)
        if self._under_way is not None:
            # Not awaited itself: a delivery that is cancelled must not take it along.
            await asyncio.wait({self._under_way})

    def _begin(self, pause: float) -> None:
        now = self._clock()
        waited = self._asked_at is None or now - self._asked_at >= pause
        if self._under_way is None and waited:
            self._asked_at, self._under_way = now, self._start(self._read())

    async def _read(self) -> None:
        begun = self._clock()
        try:
            self._keys, self._read_at = parse(await self._fetch(self._url)), begun
            self._why = ""
        except (FetchError, ValueError) as error:
            if self._why != str(error):
                log.warning("keys_away", extra={"url": _shown(self._url), "detail": str(error)})
            self._why = str(error)
        finally:
            self._under_way = None


class KeyStore:
    """All keys of one process; satisfies `providers.keyset.Keyring`. Made in a running loop."""

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._fetch, self._clock = fetch, clock
        self._tasks: set[asyncio.Task[None]] = set()
        # Those that a verifier still has: a URL that a reload leaves out is forgotten by itself.
        self._published: WeakValueDictionary[str, Published] = WeakValueDictionary()
        self._certificates: OrderedDict[str, Published] = OrderedDict()
        self._new: deque[float] = deque(maxlen=NEW_CERTIFICATES_A_MINUTE)

    def source(self, place: str) -> Source:
        """What is at an https URL, or in a file, which is read now.

        Raises OSError when the file cannot be read, ValueError when no key can be had from it.
        """
        if not is_url(place):
            return Fixed(from_file(place))
        published = self._published.get(place)
        if published is None:
            published = Published(place, self._fetch, self._clock, self._start)
            self._published[place] = published
        return published

    async def certificate(self, url: str) -> Keys | Unchecked:
        """The keys of a certificate that a delivery names."""
        held = self._certificates.get(url)
        if held is None:
            if not self._may_ask():
                return Unchecked("too many unknown certificates were named within a minute")
            held = Published(url, self._fetch, self._clock, self._start, ASKED_AGAIN)
            self._certificates[url] = held
            self._make_room(held)
        self._certificates.move_to_end(url)
        return await held.find(None)

    async def renew(self) -> None:
        """Fetch whatever is due, all of it at once."""
        await asyncio.gather(*(one.renew() for one in list(self._published.values())))

    async def watch(self) -> None:
        """Renew for good."""
        while True:
            await self.renew()
            await asyncio.sleep(LOOK)

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _may_ask(self) -> bool:
        now = self._clock()
        if len(self._new) == self._new.maxlen and now - self._new[0] < 60:
            return False
        self._new.append(now)
        return True

    def _make_room(self, newest: Published) -> None:
        """Forged names go first, then whatever was not used for longest."""
        if len(self._certificates) <= MOST_CERTIFICATES:
            return
        others = [url for url, one in self._certificates.items() if one is not newest]
        unknown = (url for url in others if not self._certificates[url].is_known)
        del self._certificates[next(unknown, others[0])]

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _shown(url: str) -> str:
    """Without its query, which may have a key of the operator's."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
