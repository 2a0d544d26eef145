"""What a user can write about reaching the consumer, and about asking it."""

from __future__ import annotations

from gateway.config.kinds import (
    Count,
    Duration,
    Filled,
    HostHeader,
    ProbeAddress,
    Size,
    Span,
    WebAddress,
)
from gateway.config.strict import Strict, written


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
