"""What a user can write about one route: unit, default and the damage of a wrong value of each."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from gateway.config.kinds import (
    ContentType,
    Count,
    Day,
    Duration,
    Filled,
    Host,
    HostHeader,
    Listed,
    Location,
    Method,
    Name,
    ProbeAddress,
    RawPath,
    ReplyStatus,
    Scope,
    Size,
    Span,
    Status,
    Text,
    Truth,
    WebAddress,
    Why,
    choice,
)
from gateway.core.route import Mode, OnDoubt, OnMissingId, OnStale, OnStoreDown

STRICT = ConfigDict(
    extra="forbid",
    frozen=True,
    validate_default=True,
    use_attribute_docstrings=True,
    arbitrary_types_allowed=True,
)


class Strict(BaseModel):
    """Settings that take nothing unknown."""

    model_config = STRICT


def written(default: object) -> Any:
    """A default in the words of a user; it is read like any other value."""
    return Field(default=default)


class UpstreamTlsSettings(Strict):
    """TLS towards the consumer; for an https URL only."""

    ca: Filled | None = None
    """PEM file of the authorities that may have signed the consumer's certificate. Default: the
    system's. Too wide a choice lets somebody else in the network pass as the consumer."""
    cert: Filled | None = None
    """PEM file of our own certificate, for consumers that want one; needs `key`. Default: none."""
    key: Filled | None = None
    """PEM file of the certificate's private key, without a passphrase. Default: none."""


class UpstreamSettings(Strict):
    """Where the consumer is, and the limits of reaching it."""

    url: WebAddress
    """http or https, host, port, and a path if it should replace the route's. Without a path the
    consumer sees the target as it came. No query, no user name, no placeholders in braces."""
    timeout: Span = written("30s")
    """The longest that one forward may take, from its first byte written to the last of the reply.
    Too short, and slow successes become doubtful: their next delivery is forwarded again, marked.
    Too long, and a hung consumer keeps a slot and its claim for that time."""
    connect_timeout: Span = written("2s")
    """Name look-up, connection and TLS together. Too short fails healthy consumers behind a slow
    network; too long makes senders wait for a dead one."""
    write_timeout: Span = written("10s")
    """The longest that sending the request may stall. Too short cuts off large bodies."""
    first_byte_timeout: Span | None = None
    """From the last byte sent to the first of the reply. Default: `timeout`. Too short makes slow
    successes doubtful."""
    slot_timeout: Duration = written("5s")
    """How long a delivery waits for one of the `concurrency` slots before it is answered 504.
    Too long adds to what the sender waits, and to the lease."""
    concurrency: Count = written("64")
    """Forwards at once, in each gateway process. Too many overrun the consumer; too few make
    senders wait for a slot."""
    host: HostHeader = written("preserve")
    """The Host header that the consumer sees: `preserve` the sender's, `upstream` for the URL's, or
    a name. Wrong, and signatures that cover the public URL fail, or the consumer's own virtual
    hosts answer 404. SNI follows the URL whatever this says."""
    tls: UpstreamTlsSettings | None = None
    """Certificates for an https URL. Default: the system's trust, no certificate of our own."""
    max_reply: Size = written("10MiB")
    """The longest reply body that is passed on; of a longer one only the status counts. Too small
    loses bodies that the sender wants; too large lets a consumer fill the memory."""


class PromiseSettings(Strict):
    """What the provider says about how late an event may return."""

    timeout: Span | None = None
    """How long the provider waits for an answer. Default: it does not say. Duplicates of an
    undecided event wait for its result a second less than this; too long a value, and the sender
    has hung up before it is answered."""
    retry_horizon: Duration | None = None
    """How long the provider repeats an event by itself. Unknown counts as 7d. Too short, and the
    memory may be too short for the last retry."""
    redrive_window: Duration | None = None
    """How old an event a person can have sent again at the provider. Unknown counts as 7d. Too
    short, and a redrive of old events is taken for new ones."""
    source: Filled | None = None
    """Where the provider says so: an address to look at again. Default: none, and `check` asks."""
    checked: Day | None = None
    """The day somebody last looked, as in 2026-08-25. Default: unknown."""


class RetrySettings(Strict):
    """How the gateway itself sends again what it has stored and acknowledged."""

    base: Span = written("5s")
    """The pause after the first attempt; it doubles with each, and is spread by up to a half. Too
    short hammers a consumer that is down; too long delays what one more attempt would deliver."""
    cap: Span = written("1h")
    """The longest pause, and the longest that a consumer's Retry-After is honoured. Too long, and
    events wait that much after a consumer is back."""
    give_up: Span = written("3d")
    """How long an event is tried after it was stored or a person sent it again; then it is `dead`
    and waits for a person. Too short, and a weekend's outage leaves its events to be sent by hand;
    too long, and they arrive when nobody expects them any more."""


class ProbeSettings(Strict):
    """Where the consumer says whether it knows an event."""

    url: ProbeAddress
    """http or https, host, port, path and query, with {event_id} once in path or query, where the
    percent-encoded id is put. It is asked by GET: 200 means that the event had its effect, 404 that
    it had none, anything else that nobody knows. One that answers 200 for events that it does not
    know loses them; one that answers 404 for those that it knows doubles them, marked."""
    timeout: Span = written("2s")
    """How long one question may take. Too short, and nothing is ever decided; too long holds up
    whoever sent the event. Adds to the lease."""
    give_up: Span = written("1h")
    """How long after an event was first seen it may stay undecided; then it is held for a person.
    Too short leaves people what the consumer could have answered a little later."""


class FixedReplySettings(Strict):
    """One reply for all duplicates."""

    status: ReplyStatus = written("200")
    """200 to 299. Anything else would make the provider send the event again."""
    content_type: ContentType | None = None
    """The reply's Content-Type, a media type. Some providers insist on theirs. Default: text/plain
    with a body, none without."""
    body: Text = written("")
    """The reply's body. Providers that want a fixed text repeat the event until they read it."""


class DuplicateReply(StrEnum):
    """Replies to a duplicate that need no more words."""

    STANDARD = "standard"
    REPLAY = "replay"


_OWN_REPLY = "{status: 200, content_type: text/plain, body: TEXT}"


def _reply_tag(value: Any) -> str:
    return "(mapping)" if isinstance(value, dict | FixedReplySettings) else "(text)"


Reply = Annotated[
    Annotated[DuplicateReply, *choice(DuplicateReply, _OWN_REPLY), Tag("(text)")]
    | Annotated[FixedReplySettings, Tag("(mapping)")],
    Discriminator(_reply_tag),
]


class RouteSettings(Strict):
    """A path, where the event id is, a mode and one upstream."""

    name: Name
    """Letters, digits, dots, dashes. It is a label in metrics, and without `scope` part of every
    key: renaming a route then forgets all its events."""
    path: RawPath
    """Whole raw segments: `/hooks/orders` takes itself and what is below it, not /hooks/orders2.
    `/` takes everything."""
    hosts: Annotated[tuple[Host, ...], *Listed] = ()
    """Names, without port, for which the route is; the most specific route wins. Default: any.
    A name that senders do not use makes their requests 404."""
    upstream: UpstreamSettings
    """Where the consumer is."""
    mode: Annotated[Mode, *choice(Mode)] = written("forward")
    """`forward` protects, and the provider gets the consumer's answer. `inbox` stores the delivery,
    acknowledges it at once and delivers it by itself; the provider never learns of a failure.
    `observe` forwards everything, waits for nothing and only counts."""
    acknowledge_after: Span | None = None
    """In `forward`: a delivery that the consumer has not answered so long after it came is stored
    and acknowledged; what fails after that is sent again by the gateway. Default: never. Longer
    than the provider waits, less a second, and it does not help; very short, and nearly every
    delivery is stored."""
    retry: RetrySettings = Field(default_factory=RetrySettings)
    """When the gateway itself sends again what it has stored and acknowledged, and for how long."""
    on_doubt: Annotated[OnDoubt, *choice(OnDoubt)] = written("retry")
    """An event whose earlier attempt may have had its effect: `retry` sends it again, marked;
    `hold` stores it, acknowledges it and waits for a person, which ends the provider's retries;
    `probe` asks the consumer. `retry` doubles in a consumer that ignores the mark; `hold` delays
    events that nothing had happened to until somebody looks."""
    probe: ProbeSettings | None = None
    """For `on_doubt: probe`: where to ask. The certificates of `upstream.tls` are used here too."""
    on_stale: Annotated[OnStale, *choice(OnStale)] = written("forward")
    """A new event that is older than `retention` by its `event_time`, so that nobody can know
    whether it is a duplicate: `forward` sends it, marked, `hold` keeps it for a person."""
    keep_payload: Duration = written("7d")
    """How long a stored delivery is kept, body and headers, after it was delivered or dropped;
    undelivered ones are kept until they are. Longer keeps personal data, shorter leaves less to
    look at."""
    high_water: Count = written("100000")
    """In mode inbox: how many events of this route may be pending or leased; above it new ones get
    503, so that the provider keeps them. What is dead or held does not count. Too low refuses
    during an outage, too high fills the disk."""
    event_id: Annotated[tuple[Location, ...], *Listed]
    """Where the event id is: header:NAME, json:/pointer, form:NAME, query:NAME; several in a list
    make one id together. Pick the id of the *event*: an id of the delivery is new on every retry
    and stops nothing, an id of the customer or the order swallows real events."""
    scope: Annotated[tuple[Scope, ...], *Listed] = ()
    """What ids are unique within: a text, or locations as in event_id (an account's header, say).
    Default: the route's name. Too wide swallows another account's events; a change forgets all."""
    event_type: Location | None = None
    """Where the event's type is; it becomes a label. Default: none."""
    event_time: Location | None = None
    """Where the event's own time is: RFC 3339 with offset, or epoch. Default: none. With it,
    events older than `retention` are marked and counted."""
    promise: PromiseSettings | None = None
    """What the provider says about how late an event may return. Default: nothing on file."""
    own_replay: Duration | None = None
    """How far back the gateway and your own tools send events again. Default: 0s, in `inbox`
    retry.give_up. Too short, and their replays count as new."""
    retention: Duration | None = None
    """How long an event is remembered after it was settled. Default: a quarter more than retry
    horizon, redrive window and own_replay together; 60d without a promise. Too short, and late
    duplicates are forwarded as new."""
    accept_short_retention: Why | None = None
    """The reason, in words, why a retention below that sum is meant. Default: none, and `check`
    fails."""
    missing_id: Annotated[OnMissingId, *choice(OnMissingId)] = written("forward")
    """A delivery without a usable id: `forward` lets it through unprotected, `refuse` answers 400,
    which loses it for good when the provider really sends such events."""
    on_store_down: Annotated[OnStoreDown, *choice(OnStoreDown)] = written("refuse")
    """While the store is away: `refuse` answers 503 so that the provider comes back, `forward`
    lets everything through, marked, doubles included."""
    success_status: Annotated[tuple[Status, ...], *Listed] = ()
    """Statuses that mean success besides 200 to 299, such as 208 or 409 for "I have that already".
    One too many, and an event that failed is never sent again."""
    refused_status: Annotated[tuple[Status, ...], *Listed] | None = None
    """Statuses with which the consumer says no *before* it acted; a retry after them is not marked.
    Replaces the default: 400 401 403 404 405 410 413 415 422 425 429, and 503 with Retry-After.
    One too many, and a second effect comes unmarked."""
    methods: Annotated[tuple[Method, ...], *Listed] = written(("POST", "PUT", "PATCH", "DELETE"))
    """Methods that carry events; others pass through unclaimed. One missing leaves its events
    unprotected."""
    lease: Duration | None = None
    """How long a delivery may leave its event undecided before the next takes over. Default and
    least: slot_timeout + connect_timeout + timeout + 5s, and with a probe up to three times its
    timeout more. Longer delays the retry after a crash."""
    body_limit: Size = written("25MiB")
    """The longest body; a longer one is answered 413. Too small loses large events, too large
    takes memory from others."""
    duplicate_reply: Reply = written("standard")
    """What a duplicate is told: `standard` is {"received": true, "duplicate": true}, `replay` is
    what the first delivery was told (kept up to 16 KiB), or a reply of your own. The wrong words,
    and a provider that insists on its own repeats the event for ever."""
    idempotency_key: Truth = written("false")
    """Whether forwards carry an Idempotency-Key, for consumers that know what to do with it. In
    front of one that replays a stored 500 under it, an event may never succeed."""
