"""What a user can write about one route: unit, default and the damage of a wrong value of each."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from gateway.config.hop_settings import ProbeSettings, UpstreamSettings
from gateway.config.kinds import (
    ContentType,
    Count,
    Duration,
    Filled,
    Host,
    Listed,
    Location,
    Method,
    Name,
    RawPath,
    ReplyStatus,
    Scope,
    Size,
    Span,
    Status,
    Text,
    Truth,
    Why,
    choice,
)
from gateway.config.known import ProviderName
from gateway.config.places import Member
from gateway.config.sender_settings import (
    BatchSettings,
    HandshakeSettings,
    PromiseSettings,
    SignatureSettings,
)
from gateway.config.strict import Strict, written
from gateway.core.batch import OnMixed
from gateway.core.route import Mode, OnDoubt, OnMissingId, OnStale, OnStoreDown


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
    provider: ProviderName | None = None
    """The preset of a provider, as `dedup-gateway providers` lists them: it sets what the route
    itself does not. Default: none. A wrong one looks for ids where there are none."""
    event_id: Annotated[tuple[Location, ...], *Listed] = ()
    """Where the event id is: header:NAME, json:/pointer, form:NAME, query:NAME; several in a list
    make one id together. Pick the id of the *event*: an id of the delivery is new on every retry
    and stops nothing, an id of the customer or the order swallows real events. Default: the
    preset's; a route has an event_id, a batch, or a reason to pass everything through."""
    batch: BatchSettings | None = None
    """For bodies that carry several events. Default: the preset's, else none: one body, one event.
    Beside event_id, that is for bodies without such a list."""
    on_mixed: Annotated[OnMixed, *choice(OnMixed)] | None = None
    """A batch with new items and seen ones: `filter` forwards the new ones only, `whole` all of it,
    marked. Default: `filter` where no signature covers the body or `resign` makes it anew, else
    `whole`, because a body with items left out no longer verifies: write `filter` if the consumer
    checks no signature. `whole` doubles the seen ones in a consumer that ignores the mark."""
    operation_key: Annotated[tuple[Location, ...], *Listed] = ()
    """What the operation is that an event starts, as locations: of two different events with one
    operation (the same order and topic, say) the second is a duplicate. Default: none, each event
    id is an operation. Too wide swallows real events; a change forgets all."""
    per_attempt: Annotated[tuple[Member, ...], *Listed] = ()
    """Members of the body, or of a batch's item, that change with every attempt, as in
    json:/attempt: they make no mismatch. Default: the preset's. One too many hides that an id comes
    with other bodies."""
    pass_through: Why | None = None
    """The reason, in words, why nothing of this route is deduplicated: it has no safe id. Default:
    the preset's, else none."""
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
    accept_new_memory: Why | None = None
    """The reason, in words, why a route that makes its keys in another way, or has another name or
    scope, is meant to recognise nothing of what it remembers. Default: none; it is warned about,
    and `check --store` fails."""
    signature: SignatureSettings | None = None
    """What deliveries are checked by before any claim; a bad one is answered 401. Default: none,
    and the consumer judges: a forged id then blocks the real one until the consumer refused it."""
    resign: Truth = written("false")
    """Whether what goes to the consumer is signed anew, with the first secret and a fresh time, so
    that late deliveries and filtered batches verify there. A consumer with another secret refuses
    all of it."""
    late_delivery: Why | None = None
    """The reason, in words, why deliveries may reach the consumer after their signed time stamp is
    out of tolerance. Default: none, and settings that deliver late are refused where there is one.
    A consumer that checks the time refuses what comes late."""
    handshakes: Annotated[tuple[HandshakeSettings, ...], *Listed] = ()
    """Requests by which the provider tests the endpoint. Default: the preset's; [] for none."""
    answer_handshakes: Truth = written("false")
    """Whether the gateway answers those whose answer is known, for a consumer that cannot; else
    they pass through to it, unclaimed. An endpoint that nobody looked after is then confirmed."""
    verify_token: Filled | None = Field(default=None, repr=False)
    """The token that a provider sends in its handshake to show that it means this endpoint.
    Default: none, and such handshakes pass through to the consumer."""
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
