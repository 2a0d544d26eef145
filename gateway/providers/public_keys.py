"""Public keys: providers that sign the body with a key of their own, and show its other half.

The time stamp is signed together with the body, without anything in between, so its length is
fixed here: a digit that moves from one to the other makes the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from gateway.core.event import Delivery
from gateway.core.signature import Checked, Flaw, Invalid, Signature, Valid
from gateway.providers.keyset import (
    Key,
    Keyring,
    Keys,
    Source,
    ed25519,
    from_base64,
    from_text,
    search,
    sources,
)
from gateway.providers.scheme import Scheme, Verifier
from gateway.providers.wire import lines

# Unix seconds from 2001 to 2286.
SECONDS = re.compile(rb"[0-9]{10}")
_HEX_SIGNATURE = re.compile(rb"[0-9a-f]{128}")
_HEX_KEY = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True)
class Signed:
    """What a delivery says about its signature."""

    signatures: tuple[bytes, ...]
    """One of them has to be right."""
    text: bytes
    time: float
    """Epoch seconds."""


def in_time(checked: Checked, time: float, tolerance: float | None, now: float) -> Checked:
    """Only what is right can be too old, or too far ahead."""
    late = tolerance is not None and abs(now - time) > tolerance
    return Invalid(Flaw.EXPIRED) if late and isinstance(checked, Valid) else checked


class KeyVerifier:
    """Checks signatures with public keys."""

    def __init__(
        self,
        read: Callable[[Delivery], Signed | None],
        places: tuple[Source, ...],
        is_right: Callable[[Key, bytes, bytes], bool],
        tolerance: float | None,
    ) -> None:
        """`is_right` is told a key, a signature and what should have been signed."""
        self._read, self._places, self._is_right = read, places, is_right
        self._tolerance = tolerance

    async def check(self, delivery: Delivery, now: float) -> Checked:
        """Whether the owner of one of the keys signed it."""
        signed = self._read(delivery)
        if signed is None:
            return Invalid(Flaw.MISSING)

        def fits(key: Key) -> bool:
            return any(self._is_right(key, one, signed.text) for one in signed.signatures)

        return in_time(await search(self._places, None, fits), signed.time, self._tolerance, now)


def is_ed25519(key: Key, signature: bytes, text: bytes) -> bool:
    """Whether an Ed25519 key made a signature."""
    if not isinstance(key.public, Ed25519PublicKey):
        return False
    try:
        key.public.verify(signature, text)
    except InvalidSignature:
        return False
    return True


def is_ecdsa(key: Key, signature: bytes, text: bytes) -> bool:
    """Whether a P-256 key made a signature, in DER, over the text's SHA-256."""
    if not isinstance(key.public, EllipticCurvePublicKey):
        return False
    try:
        key.public.verify(signature, text, ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True


def fault_of(read: Callable[[str], Keys]) -> Callable[[str], str | None]:
    """Why a text is no key, in words that do not quote it; None for one that is."""

    def fault(text: str) -> str | None:
        try:
            read(text)
        except ValueError as error:
            return str(error)
        return None

    return fault


_DISCORD = frozenset({b"x-signature-ed25519", b"x-signature-timestamp"})


def _discord(delivery: Delivery) -> Signed | None:
    found = lines(delivery.headers, _DISCORD)
    if found is None or len(found) < len(_DISCORD):
        return None
    signature, time = found[b"x-signature-ed25519"], found[b"x-signature-timestamp"]
    if not _HEX_SIGNATURE.fullmatch(signature) or not SECONDS.fullmatch(time):
        return None
    return Signed((bytes.fromhex(signature.decode()),), time + delivery.body, int(time))


def _discord_key(text: str) -> Keys:
    """As the developer portal shows it, in hex; PEM is taken as well."""
    stripped = text.strip()
    return ed25519(bytes.fromhex(stripped)) if _HEX_KEY.fullmatch(stripped) else from_text(text)


_SENDGRID_SIGNATURE = b"x-twilio-email-event-webhook-signature"
_SENDGRID_TIME = b"x-twilio-email-event-webhook-timestamp"
_SENDGRID = frozenset({_SENDGRID_SIGNATURE, _SENDGRID_TIME})


def _sendgrid(delivery: Delivery) -> Signed | None:
    found = lines(delivery.headers, _SENDGRID)
    if found is None or len(found) < len(_SENDGRID):
        return None
    signature, time = from_base64(found[_SENDGRID_SIGNATURE]), found[_SENDGRID_TIME]
    if signature is None or not SECONDS.fullmatch(time):
        return None
    return Signed((signature,), time + delivery.body, int(time))


def _sendgrid_key(text: str) -> Keys:
    """As the settings page shows it, its DER form in base64; PEM is taken as well."""
    keys = from_text(text)
    if not all(isinstance(key.public, EllipticCurvePublicKey) for key in keys):
        raise ValueError("is a key of another kind; SendGrid signs with ECDSA on P-256")
    return keys


def _verifier(
    read: Callable[[Delivery], Signed | None],
    read_key: Callable[[str], Keys],
    is_right: Callable[[Key, bytes, bytes], bool],
) -> Callable[[Signature, Keyring], Verifier]:
    def verifier(signature: Signature, keyring: Keyring) -> Verifier:
        places = sources(signature, keyring, read_key)
        return KeyVerifier(read, places, is_right, signature.tolerance)

    return verifier


SCHEMES = (
    Scheme(
        name="discord",
        headers=_DISCORD,
        carriers=frozenset({b"x-signature-ed25519"}),
        covered=frozenset({b"x-signature-timestamp"}),
        covers_body=True,
        proof="discord-interactions 0.4",
        verifier=_verifier(_discord, _discord_key, is_ed25519),
        dated=True,
        fault=fault_of(_discord_key),
    ),
    Scheme(
        name="sendgrid",
        headers=_SENDGRID,
        carriers=frozenset({_SENDGRID_SIGNATURE}),
        covered=frozenset({_SENDGRID_TIME}),
        covers_body=True,
        proof="sendgrid 6.12 and a vector in its test/unit/test_eventwebhook.py",
        verifier=_verifier(_sendgrid, _sendgrid_key, is_ecdsa),
        dated=True,
        fault=fault_of(_sendgrid_key),
    ),
)
