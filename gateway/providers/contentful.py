"""Contentful: a signature over method, path, body and the headers that the request lists.

The construction is that of contentful/node-apps-toolkit, src/requests/sign-request.ts.
"""

from __future__ import annotations

import hmac
import re
from urllib.parse import quote

from gateway.core.event import Delivery
from gateway.core.signature import Signature
from gateway.providers import wire
from gateway.providers.scheme import Scheme
from gateway.providers.signing import Encoding, Signed, plain, verifier
from gateway.providers.stamps import Unit

_SIGNATURE, _SIGNED = b"x-contentful-signature", b"x-contentful-signed-headers"
_TIME = b"x-contentful-timestamp"
_READ = frozenset({_SIGNATURE, _SIGNED, _TIME})
_MARK = re.compile(Encoding.HEX.alphabet("sha256").encode())
# More would be an attack; Contentful lists five or six.
MOST_HEADERS = 50
# What JavaScript's encodeURI, and Node's querystring.escape, leave as it is.
_OF_A_URI, _OF_A_QUERY = ";,/?:@&=+$-_.!~*'()#", "-_.!~*'()"


def read(delivery: Delivery, public_url: str | None) -> Signed | None:
    """What a delivery says; None where something is missing or makes no sense."""
    said = wire.lines(delivery.headers, _READ)
    if said is None or not said.keys() >= _READ or not _MARK.fullmatch(said[_SIGNATURE]):
        return None
    time = Unit.MILLISECONDS.read(said[_TIME])
    texts = _texts(delivery, said[_SIGNED], public_url)
    return None if time is None or texts is None else Signed((said[_SIGNATURE],), texts, time)


class ContentfulSigner:
    """Signs as Contentful does, with the first secret and the headers that the delivery lists."""

    def __init__(self, signature: Signature) -> None:
        self._key = plain(signature.secrets[0])
        self._public_url = signature.public_url

    def sign(self, delivery: Delivery, now: float) -> Delivery:
        """See Signer. As it came where a header that it lists is missing."""
        said = wire.lines(delivery.headers, _READ) or {}
        listed = said.get(_SIGNED, b",".join((_SIGNED, _TIME)))
        lines = wire.put(delivery.headers, (_SIGNED.decode(),), listed)
        lines = wire.put(lines, (_TIME.decode(),), Unit.MILLISECONDS.write(now))
        signed = delivery._replace(headers=lines)
        texts = _texts(signed, listed, self._public_url)
        if texts is None:
            return delivery
        mark = Encoding.HEX.write(hmac.digest(self._key, texts[0], "sha256"))
        return signed._replace(headers=wire.put(lines, (_SIGNATURE.decode(),), mark))


def _texts(delivery: Delivery, listed: bytes, public_url: str | None) -> tuple[bytes, ...] | None:
    names = frozenset(listed.lower().split(b","))
    # A list or a time that is not under the signature could be anybody's.
    if not names >= {_SIGNED, _TIME} or len(names) > MOST_HEADERS:
        return None
    said = wire.lines(delivery.headers, names)
    if said is None or len(said) != len(names):
        return None
    headers = b";".join(name + b":" + said[name] for name in sorted(names))
    path = wire.target(delivery, public_url)
    return tuple(
        b"\n".join((delivery.method.encode(), one.encode(), headers, delivery.body))
        # What the toolkit makes of it first, since that is what the consumer does.
        for one in dict.fromkeys((_normalised(path), path))
    )


def _normalised(target: str) -> str:
    path, _, query = target.partition("?")
    # Contentful's toolkit divides at each question mark and drops what is behind the second.
    escaped = quote(query.partition("?")[0], safe=_OF_A_QUERY)
    return quote(f"{path}?{escaped}" if escaped else path, safe=_OF_A_URI)


SCHEME = Scheme(
    name="contentful",
    headers=_READ,
    carriers=frozenset({_SIGNATURE}),
    covered=None,
    covers_body=True,
    proof="@contentful/node-apps-toolkit 3.16.1",
    verifier=verifier(read, Encoding.HEX, plain),
    signer=ContentfulSigner,
    dated=True,
    tolerance=30,
    signs_url=True,
)
