"""Signed deliveries: what a provider sends, what a route says of it, and what a check says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gateway.core.event import Delivery
from gateway.core.signature import Checked, Signature, Unchecked
from gateway.providers import schemes
from gateway.providers.keyset import Keys, Source

BODY = b'{"id":"evt_1","type":"order.paid","webhookTimestamp":1790000000000,"amount":7.0}'


class NoKeys:
    """What a scheme with shared secrets may be given: it never asks."""

    def source(self, place: str) -> Source:
        """Never called."""
        raise AssertionError("a shared secret needs no public key")

    async def certificate(self, url: str) -> Keys | Unchecked:
        """Never called."""
        raise AssertionError("a shared secret needs no certificate")


def signature_of(
    scheme: str,
    *secrets: str,
    tolerance: float | str | None = "default",
    public_url: str | None = None,
) -> Signature:
    """A route's signature; with the scheme's own tolerance if no other is said."""
    found = schemes.scheme(scheme)
    return Signature(
        scheme=scheme,
        secrets=secrets,
        keys=(),
        tolerance=found.tolerance if isinstance(tolerance, str) else tolerance,
        public_url=public_url,
        expected=(),
        headers=found.headers,
        resign=True,
    )


def delivery(
    headers: Mapping[str, str] | None = None,
    body: bytes = BODY,
    target: str = "/hooks/shop?x=1",
    method: str = "POST",
) -> Delivery:
    """A delivery to https://hooks.example.com."""
    lines = [("Host", "hooks.example.com"), *(headers or {}).items(), ("User-Agent", "a/1")]
    return Delivery(
        method=method,
        target=target,
        headers=tuple((name.encode(), value.encode("latin-1")) for name, value in lines),
        body=body,
        peer="192.0.2.7",
        scheme="https",
    )


def headers_of(one: Delivery) -> dict[str, str]:
    """Its headers, for libraries that want a dict."""
    return {name.decode(): value.decode("latin-1") for name, value in one.headers}


async def check(signature: Signature, one: Delivery, now: float) -> Checked:
    """What the route's check says."""
    return await schemes.verifier(signature, NoKeys()).check(one, now)


def sign(signature: Signature, one: Delivery, now: float) -> Delivery:
    """Signed anew, as for the consumer."""
    signer = schemes.signer(signature)
    assert signer is not None
    return signer.sign(one, now)


def with_one_byte_changed(
    one: Delivery, names: Sequence[str], *, body: bool
) -> Iterator[tuple[str, Delivery]]:
    """The delivery once for each byte of these headers (and of the body), that byte another."""
    wanted = {name.lower().encode() for name in names}
    for place, (name, value) in enumerate(one.headers):
        if name.lower() in wanted:
            for at, changed in _changed(value):
                line = ((name, changed),)
                lines = one.headers[:place] + line + one.headers[place + 1 :]
                yield f"{name.decode()} at {at}", one._replace(headers=lines)
    for at, changed in _changed(one.body) if body else ():
        yield f"body at {at}", one._replace(body=changed)


def _changed(text: bytes) -> Iterator[tuple[int, bytes]]:
    for at, byte in enumerate(text):
        for bit in (0x01, 0x20):  # the second changes a letter's case
            yield at, text[:at] + bytes([byte ^ bit]) + text[at + 1 :]
