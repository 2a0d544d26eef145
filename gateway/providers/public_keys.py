"""Public keys: providers that sign the body with a key of their own, and show its other half.

The time stamp is signed together with the body, without anything in between, so its length is
fixed here: a digit that moves from one to the other makes the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from gateway.core.event import Delivery
from gateway.core.signature import Checked, Flaw, Invalid, Signature, Unchecked, Valid
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
from gateway.providers.scheme import Scheme, Signer, Verifier
from gateway.providers.wire import lines

# Unix seconds from 2001 to 2286.
_SECONDS = re.compile(rb"[0-9]{10}")
_HEX_SIGNATURE = re.compile(rb"[0-9a-f]{128}")
_HEX_KEY = re.compile(r"[0-9a-fA-F]{64}")
# Standard Webhooks: as many as there can be while keys are replaced, and no more work than that.
_MOST_SIGNATURES = 16


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
    if not _HEX_SIGNATURE.fullmatch(signature) or not _SECONDS.fullmatch(time):
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
    if signature is None or not _SECONDS.fullmatch(time):
        return None
    return Signed((signature,), time + delivery.body, int(time))


_STANDARD = ("id", "timestamp", "signature")
_V1A = re.compile(rb"v1a,([A-Za-z0-9+/]{86}==)")


def _standard(delivery: Delivery) -> Signed | None:
    """The Ed25519 signatures of Standard Webhooks, under the names of either spelling."""
    for spelling in ("webhook-", "svix-"):
        names = [f"{spelling}{name}".encode() for name in _STANDARD]
        found = lines(delivery.headers, frozenset(names))
        if found is None:
            return None
        if len(found) == len(names):
            return _standard_signed(delivery.body, *(found[name] for name in names))
    return None


def _standard_signed(body: bytes, event_id: bytes, time: bytes, written: bytes) -> Signed | None:
    marks = [match[1] for one in written.split(b" ") if (match := _V1A.fullmatch(one)) is not None]
    signatures = [raw for mark in marks if (raw := from_base64(mark)) is not None]
    if not signatures or not _SECONDS.fullmatch(time):
        return None
    text = b"%b.%b.%b" % (event_id, time, body)
    return Signed(tuple(signatures[:_MOST_SIGNATURES]), text, int(time))


_PUBLIC = "whpk_"


def _standard_key(text: str) -> Keys:
    """As the specification writes a public key: base64 of its 32 bytes after whpk_."""
    raw = from_base64(text.strip().removeprefix(_PUBLIC).encode("utf-8", "surrogateescape"))
    if raw is None:
        raise ValueError("is no base64 after whpk_")
    return ed25519(raw)


class BothVersions:
    """Standard Webhooks: one header may carry signatures of either kind, and one has to be right.

    Among the secrets, whpk_ begins a public key (v1a); all others are shared (v1).
    """

    def __init__(self, signature: Signature, keyring: Keyring, shared: Scheme) -> None:
        public = [text.strip().startswith(_PUBLIC) for text in signature.secrets]
        numbers = range(len(public))
        self._shared_at = [number for number in numbers if not public[number]]
        ours = [number for number in numbers if public[number]]
        # Files and URLs of keys come after all that is written as text.
        self._public_at = [*ours, *range(len(public), len(public) + len(signature.keys))]
        secrets = [signature.secrets[number] for number in self._shared_at]
        keys = [signature.secrets[number] for number in ours]
        self._v1 = shared.verifier(replace(signature, secrets=tuple(secrets), keys=()), keyring)
        self._v1a = KeyVerifier(
            _standard,
            sources(replace(signature, secrets=tuple(keys)), keyring, _standard_key),
            is_ed25519,
            signature.tolerance,
        )

    async def check(self, delivery: Delivery, now: float) -> Checked:
        """Whether one of either kind is right; if none is, what came nearest to it."""
        answers = (
            placed(await self._v1.check(delivery, now), self._shared_at),
            placed(await self._v1a.check(delivery, now), self._public_at)
            if self._public_at
            else Invalid(Flaw.MISSING),
        )
        return max(answers, key=_promising)


def placed(checked: Checked, places: list[int]) -> Checked:
    """Valid under the number that a secret has in the configuration."""
    return Valid(places[checked.secret]) if isinstance(checked, Valid) else checked


def _promising(checked: Checked) -> int:
    match checked:
        case Valid():
            return 4
        case Invalid(Flaw.EXPIRED):
            return 3
        case Unchecked():
            return 2
        case Invalid(Flaw.WRONG):
            return 1
        case _:
            return 0


def with_public_keys(shared: Scheme) -> Scheme:
    """A scheme of Standard Webhooks that takes both kinds of signatures."""
    is_public = fault_of(_standard_key)

    def fault(text: str) -> str | None:
        return is_public(text) if text.strip().startswith(_PUBLIC) else shared.fault(text)

    def signer(signature: Signature) -> Signer:
        ours = tuple(one for one in signature.secrets if not one.strip().startswith(_PUBLIC))
        if shared.signer is None or not ours:
            raise ValueError("a public key signs nothing; resign needs a shared secret, whsec_…")
        return shared.signer(replace(signature, secrets=ours))

    return replace(
        shared,
        verifier=lambda signature, keyring: BothVersions(signature, keyring, shared),
        signer=signer,
        fault=fault,
    )


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
        covers_body=True,
        proof="discord-interactions 0.4",
        verifier=_verifier(_discord, _discord_key, is_ed25519),
        dated=True,
        fault=fault_of(_discord_key),
    ),
    Scheme(
        name="sendgrid",
        headers=_SENDGRID,
        covers_body=True,
        proof="sendgrid 6.12; vector: sendgrid-python test/unit/test_eventwebhook.py",
        verifier=_verifier(_sendgrid, from_text, is_ecdsa),
        dated=True,
        fault=fault_of(from_text),
    ),
)
