"""In the body: signatures of Braintree and Mailgun, and the time of Linear's."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable

from gateway.core import spans
from gateway.core.document import bytes_of
from gateway.core.event import Delivery
from gateway.core.keying import Reading
from gateway.core.location import FirstOf, Form, Json
from gateway.core.signature import Signature
from gateway.providers import wire
from gateway.providers.derivation import sha1_of
from gateway.providers.scheme import Scheme
from gateway.providers.signing import Encoding, Read, Signed, plain, verifier
from gateway.providers.stamps import Unit

_HEX_SHA256 = re.compile(Encoding.HEX.alphabet("sha256"))


def braintree(delivery: Delivery) -> Signed | None:
    """A form of `bt_payload` and `bt_signature`: pairs of a public key and a mark."""
    reading = Reading(delivery)
    payload = reading.text(Form("bt_payload"))
    signature = reading.text(Form("bt_signature"))
    if payload is None or signature is None or not _PAYLOAD.fullmatch(payload):
        return None
    marks = tuple(found[1].encode() for found in _PAIR.finditer(signature))
    # Braintree's libraries try it with a line break, too, which is there when it is signed and gets
    # lost on some ways. The id leaves it out: a second spelling must not be a second event.
    texts = (payload.encode(), payload.encode() + b"\n")
    return Signed(marks, texts, None, "sha1") if 0 < len(marks) <= 16 else None


def mailgun(delivery: Delivery) -> Signed | None:
    """A time, a token and a mark over these two: it shows who sends, and covers no payload."""
    reading = Reading(delivery)
    time, token, mark = (reading.text(where) for where in _OF_MAILGUN)
    if time is None or token is None or mark is None or not _HEX_SHA256.fullmatch(mark):
        return None
    stamp = bytes_of(time)
    moment = Unit.SECONDS.read(stamp)
    if moment is None:
        return None
    text = stamp + bytes_of(token)
    return Signed((mark.encode(),), (text,), moment)


class MailgunSigner:
    """Signs the token of a JSON body anew, with the first secret."""

    def __init__(self, signature: Signature) -> None:
        self._key = plain(signature.secrets[0])

    def sign(self, delivery: Delivery, now: float) -> Delivery:
        """See Signer. A body that is a form stays as it came."""
        token = Reading(delivery).text(Json(("signature", "token")))
        if token is None:
            return delivery
        time = Unit.SECONDS.write(now)
        text = time + bytes_of(token)
        mark = Encoding.HEX.write(hmac.digest(self._key, text, "sha256"))
        signed = _written(delivery, ("signature", "timestamp"), time)
        signed = signed and _written(signed, ("signature", "signature"), mark)
        return signed or delivery


def linear(delivery: Delivery) -> Signed | None:
    """A mark over the body, which says when; what the header says of the time is not signed."""
    said = wire.lines(delivery.headers, _OF_LINEAR)
    mark = None if not said else said[b"linear-signature"]
    if mark is None or not _HEX_SHA256.fullmatch(mark.decode("latin-1")):
        return None
    written = Reading(delivery).text(Json(("webhookTimestamp",)))
    time = None if written is None else Unit.MILLISECONDS.read(written.encode("utf-8", "replace"))
    return None if time is None else Signed((mark,), (delivery.body,), time)


class LinearSigner:
    """Writes the time into the body and signs that, with the first secret."""

    def __init__(self, signature: Signature) -> None:
        self._key = plain(signature.secrets[0])

    def sign(self, delivery: Delivery, now: float) -> Delivery:
        """See Signer. As it came where the body has no time."""
        time = Unit.MILLISECONDS.write(now)
        dated = _written(delivery, ("webhookTimestamp",), time)
        if dated is None:
            return delivery
        mark = Encoding.HEX.write(hmac.digest(self._key, dated.body, "sha256"))
        return dated._replace(headers=wire.put(dated.headers, ("Linear-Signature",), mark))


def _written(delivery: Delivery, pointer: spans.Pointer, value: bytes) -> Delivery | None:
    """The delivery with another text or number in its body, where there is one; else None."""
    try:
        text = delivery.body.decode()
        found = spans.values(text, pointer)
    except ValueError:
        return None
    if len(found) != 1:
        return None
    start, end = found[0]
    quote = '"' if text[start] == '"' else ""
    body = f"{text[:start]}{quote}{value.decode()}{quote}{text[end:]}".encode()
    return delivery._replace(body=body)


def _alone(read: Callable[[Delivery], Signed | None]) -> Read:
    """For what is signed without the URL."""
    return lambda delivery, public_url: read(delivery)


_PAYLOAD = re.compile(r"[A-Za-z0-9+/=\n]+")
_PAIR = re.compile(rf"(?:^|&)[^|&]+\|({Encoding.HEX.alphabet('sha1')})(?=&|$)")
_OF_LINEAR = frozenset({b"linear-signature"})
_OF_MAILGUN = tuple(
    # Webhooks are JSON; what Mailgun sends for a mail that came in is a form.
    FirstOf((Json(("signature", name)), Form(name)))
    for name in ("timestamp", "token", "signature")
)

SCHEMES: tuple[Scheme, ...] = (
    Scheme(
        name="braintree",
        headers=frozenset(),
        carriers=frozenset(),
        covered=frozenset(),
        covers_body=True,
        proof="braintree 4.48",
        verifier=verifier(_alone(braintree), Encoding.HEX, sha1_of),
    ),
    Scheme(
        name="linear",
        headers=_OF_LINEAR,
        carriers=_OF_LINEAR,
        covered=frozenset(),
        covers_body=True,
        proof="@linear/sdk 98.0.0",
        verifier=verifier(_alone(linear), Encoding.HEX, plain),
        signer=LinearSigner,
        dated=True,
        tolerance=60,
    ),
    Scheme(
        name="mailgun",
        headers=frozenset(),
        carriers=frozenset(),
        covered=frozenset(),
        covers_body=False,
        proof="mailgun 1.10",
        verifier=verifier(_alone(mailgun), Encoding.HEX, plain),
        signer=MailgunSigner,
        dated=True,
        # It names no limit; with one recording anybody can send any event. A retry may come under
        # its first stamp for 8 hours, and older documentation adds up to five minutes more.
        tolerance=9 * 3600,
        bare=True,
    ),
)
