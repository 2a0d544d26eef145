"""Routes: what configuration becomes once it is valid. Nothing in here is optional by accident.

Defaults are resolved in `config`; inside the program a policy is a value, not a question. Spans
that the hop or the loop measures are float seconds, spans of days are timedelta.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from urllib.parse import quote

from gateway.core.batch import BatchPolicy
from gateway.core.handshake import Handshake
from gateway.core.keying import Recipe, digest
from gateway.core.location import Location, canonical, header_names
from gateway.core.outcome import StatusPolicy
from gateway.core.retention import Promise, floor
from gateway.core.retry import RetryPolicy
from gateway.core.signature import Signature
from gateway.core.spans import Pointer

# What a holder needs beside its waits: one settlement, and a pause of the process.
LEASE_MARGIN = 5.0
# D1: nobody waits longer for somebody else's result than this, whatever the provider allows.
LONGEST_BUSY_WAIT = 10.0
BUSY_WAIT_WITHOUT_PROMISE = 5.0
# Where a probe's URL has the id.
EVENT_ID = "{event_id}"


class Mode(StrEnum):
    """When is the event claimed for real?"""

    OBSERVE = "observe"
    FORWARD = "forward"
    INBOX = "inbox"


class OnMissingId(StrEnum):
    """What happens to a delivery without a usable id (D4)."""

    FORWARD = "forward"
    REFUSE = "refuse"


class OnStoreDown(StrEnum):
    """What happens to a delivery while the store is away (D2)."""

    REFUSE = "refuse"
    FORWARD = "forward"


class OnDoubt(StrEnum):
    """What happens to an event whose earlier attempt may have had its effect."""

    RETRY = "retry"
    """Forward it, marked."""
    HOLD = "hold"
    """Store it, acknowledge it, and wait for a person."""
    PROBE = "probe"
    """Ask the consumer whether it knows the event."""


class OnStale(StrEnum):
    """What happens to a new event that is older than our memory (D12)."""

    FORWARD = "forward"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Tls:
    """How the consumer proves itself to us, and we to it: paths of PEM files.

    None is the system's trust, or no certificate.
    """

    ca: str | None
    cert: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where a consumer is, and the limits of the hop. Seconds and bytes."""

    scheme: str
    host: str
    """A name or an address; an IPv6 address without brackets."""
    port: int
    path: str | None
    """Replaces the route's path at the front of the target; None leaves the target as it came."""
    host_header: str | None
    """What the consumer sees as Host; None preserves the provider's."""
    tls: Tls
    concurrency: int
    slot_timeout: float
    """The longest wait for one of the `concurrency` slots."""
    connect_timeout: float
    """Name look-up, TCP and TLS together."""
    write_timeout: float
    """The longest that writing the request may make no progress."""
    first_byte_timeout: float
    """From the last byte written to the first of the reply."""
    timeout: float
    """From the first byte written to the last of the reply."""
    max_reply: int
    """A longer reply body is cut off; its status still counts."""

    @property
    def authority(self) -> str:
        """Host and port as a Host header writes them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"

    @property
    def longest(self) -> float:
        """All that one forward may take."""
        return self.slot_timeout + self.connect_timeout + self.timeout


@dataclass(frozen=True, slots=True)
class Probe:
    """Where the consumer says whether it knows an event."""

    upstream: Upstream
    """Its `timeout` bounds one question."""
    target: str
    """Raw path and query, with `{event_id}` where the percent-encoded id goes."""
    give_up: float
    """Seconds since the event was first seen, after which an undecided one is held."""

    @property
    def shown(self) -> str:
        """The target for people: of a query only the names and the id, for values may be keys."""
        path, mark, query = self.target.partition("?")
        parts = [
            part if EVENT_ID in part or "=" not in part else part.partition("=")[0] + "=…"
            for part in query.split("&")
        ]
        return path + mark + "&".join(parts)

    def target_of(self, event_id: str) -> str:
        """The target that asks for one event, whatever characters its id has."""
        written = quote(event_id.encode("utf-8", "surrogatepass"), safe="")
        return self.target.replace(EVENT_ID, written)


@dataclass(frozen=True, slots=True)
class StandardReply:
    """`{"received": true, "duplicate": true}`."""


@dataclass(frozen=True, slots=True)
class ReplayReply:
    """What the first delivery got: status, content type and up to 16 KiB of body."""


@dataclass(frozen=True, slots=True)
class FixedReply:
    """What the route says."""

    status: int
    content_type: str | None
    """None for a reply without a body."""
    body: bytes


DuplicateReply = StandardReply | ReplayReply | FixedReply

REPLAY_LIMIT = 16 * 2**10


@dataclass(frozen=True, slots=True)
class Route:
    """A path, where the id is, a mode and one upstream."""

    name: str
    path: str
    """Whole raw segments, no trailing slash: `/hooks/orders` takes itself and what is below it.

    The empty text takes everything.
    """
    hosts: tuple[str, ...]
    """Lower case, without port; empty for any host."""
    upstream: Upstream
    mode: Mode
    pass_through: str | None
    """Why nothing here is deduplicated; None where there are events."""
    recipe: Recipe
    batch: BatchPolicy | None
    per_attempt: tuple[Pointer, ...]
    """Members of the body, or of a batch's item, that change with every attempt."""
    signature: Signature | None
    """None leaves it to the consumer to check."""
    handshakes: tuple[Handshake, ...]
    """Those with a greeting are answered by us, the others by the consumer."""
    event_type: Location | None
    event_time: Location | None
    promise: Promise | None
    own_replay: timedelta
    retention: timedelta
    methods: frozenset[str]
    """Upper case. A request with another method passes through unclaimed (D11)."""
    missing_id: OnMissingId
    on_store_down: OnStoreDown
    status: StatusPolicy
    duplicate_reply: DuplicateReply
    lease: float
    """Seconds; at least `upstream.longest + LEASE_MARGIN` (D7)."""
    body_limit: int
    """Bytes."""
    idempotency_key: bool
    on_doubt: OnDoubt
    probe: Probe | None
    """Not None where `on_doubt` is probe."""
    on_stale: OnStale
    acknowledge_after: float | None
    """Seconds after which a delivery whose forward is still under way is stored and acknowledged;
    only in forward mode."""
    retry: RetryPolicy
    keep_payload: timedelta
    """How long an entry is kept after it was delivered or dropped."""
    high_water: int
    """So many pending and leased entries of this route, and no more are accepted."""

    @property
    def floor(self) -> timedelta | None:
        """The least retention that keeps the promise; None without one."""
        return floor(self.promise, self.own_replay)

    @property
    def scope(self) -> tuple[str, ...]:
        """In one spelling: routes with the same one share a memory."""
        return tuple(map(canonical, self.recipe.scope))

    @property
    def place(self) -> str:
        """Where it listens, for people and to know it by under another name."""
        return ",".join(sorted(self.hosts)) + self.path

    @property
    def longest(self) -> float:
        """Seconds that a holder may take from winning to the end of its forward."""
        asking = 0.0 if self.probe is None else self.probe.upstream.longest
        return asking + self.upstream.longest

    @property
    def print(self) -> bytes:
        """16 bytes that change when the recipe of its keys does."""
        own = self.recipe.print()
        if self.batch is None:
            return own
        items = ("/".join(pointer) for pointer in self.batch.items)
        return digest((own.hex(),), (*items, *map(canonical, self.batch.parts)))

    @property
    def decisive(self) -> frozenset[bytes]:
        """Lower-case names of the headers that a sender must not nominate away.

        They are those of the id and of the signature. In observe nothing is refused for the sake of
        either: what was dropped is missing then.
        """
        if self.mode is Mode.OBSERVE:
            return frozenset()
        signed = frozenset() if self.signature is None else self.signature.headers
        read = () if self.batch is None else self.batch.parts
        items = frozenset(name.lower().encode() for name in header_names(read))
        return self.recipe.headers() | items | signed

    @property
    def busy_wait(self) -> float:
        """Seconds that a duplicate waits for the first one's result (D1)."""
        if self.promise is None or self.promise.timeout is None:
            return BUSY_WAIT_WITHOUT_PROMISE
        return min(max(self.promise.timeout.total_seconds() - 1, 0.0), LONGEST_BUSY_WAIT)
