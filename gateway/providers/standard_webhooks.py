"""Standard Webhooks: one header may carry signatures of both kinds, and one has to be right.

Those of v1 are made with a shared secret, those of v1a with an Ed25519 key.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gateway.core.event import Delivery
from gateway.core.signature import Checked, Flaw, Invalid, Signature, Unchecked, Valid
from gateway.providers.keyset import Keyring, Keys, ed25519, from_base64, sources
from gateway.providers.public_keys import SECONDS, KeyVerifier, Signed, fault_of, is_ed25519
from gateway.providers.scheme import Scheme, Signer
from gateway.providers.wire import lines

_PROOF = "mobiscroll-connect-sdk 1.6"
# As many as there can be while keys are replaced, and no more work than that.
_MOST_SIGNATURES = 16
_SPELLINGS = tuple(
    (b"webhook-" + name, b"svix-" + name) for name in (b"id", b"timestamp", b"signature")
)
_V1A = re.compile(rb"v1a,([A-Za-z0-9+/]{86}==)")


def _standard(delivery: Delivery) -> Signed | None:
    """The Ed25519 signatures of a delivery; where it has both spellings of a header, they agree.

    The event id is read from either, so one that is not signed must not stand beside one that is.
    """
    found = lines(delivery.headers, frozenset(name for pair in _SPELLINGS for name in pair))
    if found is None:
        return None
    values = [{found[name] for name in pair if name in found} for pair in _SPELLINGS]
    if any(len(agreed) != 1 for agreed in values):
        return None
    return _standard_signed(delivery.body, *(agreed.pop() for agreed in values))


def _standard_signed(body: bytes, event_id: bytes, time: bytes, written: bytes) -> Signed | None:
    marks = [match[1] for one in written.split(b" ") if (match := _V1A.fullmatch(one)) is not None]
    signatures = [raw for mark in marks if (raw := from_base64(mark)) is not None]
    if not signatures or not SECONDS.fullmatch(time):
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
        proof=f"{shared.proof}; v1a: {_PROOF}",
        verifier=lambda signature, keyring: BothVersions(signature, keyring, shared),
        signer=signer,
        fault=fault,
    )
