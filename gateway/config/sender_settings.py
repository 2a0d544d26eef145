"""What a user can write about the provider: its promise, its batches, signatures and handshakes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway.config.kinds import (
    ContentType,
    Day,
    Duration,
    Filled,
    Listed,
    Location,
    Method,
    Span,
    Status,
    Truth,
    WebAddress,
)
from gateway.config.known import SchemeName
from gateway.config.places import Condition, HeaderName, Items, Told
from gateway.config.strict import Strict, written


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


class BatchSettings(Strict):
    """For bodies that carry several events: each item is claimed under its own id."""

    items: Annotated[tuple[Items, ...], *Listed]
    """Where the items are: json:/events for the list at that member, json:/* for a body that is a
    list; an earlier * walks an outer list, and several places may be given. A body without such a
    list is taken for one event. A wrong place leaves all items unprotected."""
    event_id: Annotated[tuple[Location, ...], *Listed]
    """Where an item's id is, as in the route's event_id; json:/ starts at the item, while header:
    and query: are the request's. The same care: an id of the delivery stops nothing, one that
    several items share swallows all but the first."""
    event_type: Location | None = None
    """Where an item's type is; it becomes a label. Default: none."""
    event_time: Location | None = None
    """Where an item's own time is: RFC 3339 with offset, or epoch. Default: none."""


class SignatureSettings(Strict):
    """What a delivery is checked by before anything of it is believed."""

    scheme: SchemeName | None = None
    """How the provider signs. Default: the preset's. A wrong one refuses every delivery."""
    secrets: Annotated[tuple[Filled, ...], *Listed] = Field(default=(), repr=False)
    """Shared with the provider; all are tried, so that a new one can stand beside the old one while
    it is rotated. Basic auth is user:password. For public keys as text, too. Default: none. An old
    one that is left here is still believed."""
    keys: Annotated[tuple[Filled, ...], *Listed] = ()
    """The provider's public keys, where it signs with them: PEM or JWKS files, or https URLs of a
    JWKS, which is fetched again every 45 minutes. Default: those that the provider publishes, if
    the scheme knows where; else none."""
    tolerance: Span | None = None
    """How far a signed time stamp may be from now. Default: what the provider's own libraries take;
    for Mailgun and PayPal, which name no limit, an hour more than they retry. Too short refuses the
    deliveries of a slow network or a wrong clock, too long lets somebody who recorded a delivery
    send it again for that time."""
    public_url: WebAddress | None = None
    """For schemes that sign the URL: what the provider calls, https://HOST and a path if it differs
    from the one that arrives here. Default: as the request itself says, which is not what the
    provider called when a proxy in front ends its TLS. Wrong, and every delivery is refused."""
    audience: Filled | None = None
    """For signed tokens: whom the token has to be for. Default: none. Too wide, and a token that
    was made for another service of yours is believed."""
    issuer: Filled | None = None
    """For signed tokens: who has to have made it. Default: the provider, where the scheme says
    who."""
    email: Filled | None = None
    """For Google's tokens, which need it: the service account that has to have asked. A wrong one
    refuses every delivery."""
    webhook_id: Filled | None = None
    """For PayPal: the id that it gave this webhook, which it signs. Default: none."""


class AnswerSettings(Strict):
    """The answer to a handshake, out of what the request says."""

    status: Status = written("200")
    """The reply's status."""
    content_type: ContentType | None = None
    """The reply's Content-Type. Default: application/json with `json`, text/plain with `text`."""
    text: Location | None = None
    """Whose value is the body; literal:TEXT for fixed words. Default: an empty body."""
    members: dict[Filled, Told] = Field(default={}, alias="json")
    """Or a JSON object: its members' names, and the location whose value each has;
    hmac-sha256(LOCATION) is that value's digest under the first secret, in hex. Default: none."""
    headers: dict[HeaderName, Location] = Field(default={})
    """Headers of the reply and the location whose value each has. Default: none."""


class HandshakeSettings(Strict):
    """A request by which the provider tests the endpoint: it is no event and never claimed."""

    match: Annotated[tuple[Condition, ...], *Listed]
    """What makes it one, all of it: LOCATION for something that is there, LOCATION = TEXT for a
    value (or {verify_token}), no LOCATION for something that is not. Too wide, and events pass
    unprotected."""
    methods: Annotated[tuple[Method, ...], *Listed] = ()
    """Its methods, whether or not they carry events. Default: any."""
    signed: Truth = written("true")
    """Whether the provider signs it like a delivery; unsigned ones are let through unchecked."""
    answer: AnswerSettings | None = None
    """What answers it, with answer_handshakes: true. Default: only the consumer can."""
