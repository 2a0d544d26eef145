"""HubSpot: version 3 of its signature is checked; versions 1 and 2 come with it.

These are plain digests over the secret and the body, without a time. Nobody has to believe them
here, but many consumers do, and a batch that lost something would fail there.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from gateway.core.event import Delivery
from gateway.core.signature import Signature
from gateway.providers import wire
from gateway.providers.mac import Mac, MacSigner, scheme_of
from gateway.providers.signing import Encoding, plain
from gateway.providers.stamps import Stamp, Unit

_OLDER, _VERSION = b"x-hubspot-signature", b"x-hubspot-signature-version"

VERSION_3 = Mac(
    "hubspot-v3",
    ("X-HubSpot-Signature-v3",),
    "hubspot-api-client 12.0",
    signed=("{method}{unescaped_url}{body}{time}", "{method}{url}{body}{time}"),
    encoding=Encoding.BASE64,
    stamp=Stamp(Unit.MILLISECONDS, ("X-HubSpot-Request-Timestamp",)),
    tolerance=300,
)


class HubSpotSigner:
    """Signs all versions that came."""

    def __init__(self, signature: Signature) -> None:
        self._newest = MacSigner(VERSION_3, signature)
        self._secret = plain(signature.secrets[0])
        self._public_url = signature.public_url

    def sign(self, delivery: Delivery, now: float) -> Delivery:
        """See Signer."""
        signed = self._newest.sign(delivery, now)
        said = wire.lines(delivery.headers, frozenset({_OLDER, _VERSION})) or {}
        url = wire.url(delivery, self._public_url)
        if _OLDER not in said or url is None:
            return signed
        second = said.get(_VERSION) == b"v2"
        where = delivery.method.encode() + url if second else b""
        mark = sha256(self._secret + where + signed.body).hexdigest().encode()
        return signed._replace(headers=wire.put(signed.headers, (_OLDER.decode(),), mark))


SCHEME = replace(scheme_of(VERSION_3), signer=HubSpotSigner)
