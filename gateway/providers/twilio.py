"""Twilio: a signature over the URL and what a form says, whatever its order.

Names and values are put behind each other without anything between, so Twilio's signature cannot
tell `a=bc` from `ab=c`, nor one percent-encoding from another. A body that is no form is covered by
its digest in the query (`bodySHA256`), and without that by nothing, so it is not believed.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator
from hashlib import sha256
from urllib.parse import unquote_to_bytes

from gateway.core import form
from gateway.core.event import Delivery
from gateway.core.form import KIND, LONGEST, MOST_FIELDS
from gateway.core.signature import Signature
from gateway.providers import wire
from gateway.providers.scheme import Scheme
from gateway.providers.signing import Encoding, Signed, plain, verifier

_CARRIER = "X-Twilio-Signature"
_SIGNATURE, _SETTINGS = b"x-twilio-signature", b"x-twilio-webhooks-signature-settings"
_READ = frozenset({_SIGNATURE, _SETTINGS, b"content-type"})
_DIGESTS = {b"HMAC_SHA1": "sha1", b"HMAC_SHA256": "sha256"}
_ALGORITHM = re.compile(rb"(?:^|,) *algorithm *= *([^, ]+)")
_PORT = re.compile(rb"^(https?://(?:\[[^\]]*\]|[^/?:\[]*))(:[0-9]+)?(?=[/?]|$)")


def read(delivery: Delivery, public_url: str | None) -> Signed | None:
    """What a delivery says; None where something is missing or makes no sense."""
    said = wire.lines(delivery.headers, _READ)
    digest = None if said is None else _digest(said)
    if said is None or digest is None or _SIGNATURE not in said:
        return None
    mark = said[_SIGNATURE]
    if not re.fullmatch(Encoding.BASE64.alphabet(digest).encode(), mark):
        return None
    texts = _texts(delivery, said, public_url)
    return None if texts is None else Signed((mark,), texts, None, digest)


class TwilioSigner:
    """Signs as Twilio does, with the first secret."""

    def __init__(self, signature: Signature) -> None:
        self._key = plain(signature.secrets[0])
        self._public_url = signature.public_url

    def sign(self, delivery: Delivery, now: float) -> Delivery:
        """See Signer. There is no time in it; as it came where there is nothing to sign."""
        del now
        said = wire.lines(delivery.headers, _READ)
        digest = None if said is None else _digest(said)
        texts = None if said is None else _texts(delivery, said, self._public_url)
        if digest is None or texts is None:
            return delivery
        mark = Encoding.BASE64.write(hmac.digest(self._key, texts[0], digest))
        return delivery._replace(headers=wire.put(delivery.headers, (_CARRIER,), mark))


def _digest(said: dict[bytes, bytes]) -> str | None:
    # A key other than the account's token says so, and may use the newer digest.
    found = _ALGORITHM.search(said.get(_SETTINGS, b""))
    return "sha1" if found is None else _DIGESTS.get(found[1].upper())


def _texts(
    delivery: Delivery, said: dict[bytes, bytes], public_url: str | None
) -> tuple[bytes, ...] | None:
    url = wire.url(delivery, public_url)
    if url is None:
        return None
    behind: bytes | None = b""
    digests = _in_query(delivery)
    if digests:
        behind = b"" if _is_of(digests, delivery.body) else None
    elif said.get(b"content-type", b"").partition(b";")[0].strip().lower() == KIND:
        behind = _of_form(delivery)
    elif delivery.body:
        behind = None
    return None if behind is None else tuple(one + behind for one in dict.fromkeys(_spelled(url)))


def _spelled(url: bytes) -> Iterator[bytes]:
    """With and without the port: Twilio's own library tries both, as Twilio does not always sign
    the same.
    """
    yield url
    found = _PORT.match(url)
    if found is not None:
        host, rest = found[1], url[found.end() :]
        yield host + rest
        yield host + (found[2] or (b":443" if host.startswith(b"https:") else b":80")) + rest


def _of_form(delivery: Delivery) -> bytes | None:
    body = delivery.body
    # Packed, its fields would be other ones for us than for whoever unpacks it.
    if delivery.header(b"content-encoding") is not None or len(body) > LONGEST:
        return None
    if body.count(b"&") >= MOST_FIELDS:
        return None
    pairs = set()
    for piece in body.split(b"&"):
        if piece:
            name, _, value = piece.replace(b"+", b" ").partition(b"=")
            pairs.add((unquote_to_bytes(name), unquote_to_bytes(value)))
    return b"".join(name + value for name, value in sorted(pairs))


def _in_query(delivery: Delivery) -> set[str]:
    """What the URL says of the body. It is part of what is signed."""
    query = delivery.target.partition("?")[2].encode("latin-1")
    return {value for name, value in form.pairs(query) if name == "bodySHA256"}


def _is_of(digests: set[str], body: bytes) -> bool:
    digest = sha256(body).hexdigest().encode()
    return len(digests) == 1 and hmac.compare_digest(
        digest, digests.pop().encode("utf-8", "surrogateescape")
    )


SCHEME = Scheme(
    name="twilio",
    headers=_READ,
    carriers=frozenset({_SIGNATURE}),
    covered=frozenset(),
    covers_body=True,
    proof="twilio 9.13",
    verifier=verifier(read, Encoding.BASE64, plain),
    signer=TwilioSigner,
    signs_url=True,
)
