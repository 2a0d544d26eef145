"""Static tokens: the secret itself is sent with each delivery, and nothing is signed.

Whoever sees one delivery can forge others; it only keeps out those who never saw one.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from gateway.core.event import Delivery
from gateway.core.signature import Checked, Flaw, Invalid, Signature, Valid
from gateway.providers import wire
from gateway.providers.keyset import Keyring
from gateway.providers.scheme import Scheme, Signer, Verifier, any_secret
from gateway.providers.signing import plain


@dataclass(frozen=True, slots=True)
class Token:
    """How a provider sends one."""

    name: str
    header: str
    proof: str | None
    kind: str | None = None
    """The authorization scheme before it; its case does not matter (RFC 9110, 11.1)."""
    write: Callable[[str], bytes] = plain
    """What is sent of a secret."""
    fault: Callable[[str], str | None] = any_secret


class TokenVerifier:
    """Checks what is sent against the route's secrets."""

    def __init__(self, token: Token, signature: Signature) -> None:
        self._name = token.header.lower().encode()
        self._kind = None if token.kind is None else token.kind.lower().encode()
        # Digests are of one length, so that time does not tell how long the secrets are.
        self._digests = tuple(sha256(token.write(one)).digest() for one in signature.secrets)

    async def check(self, delivery: Delivery, now: float) -> Checked:
        """Whether one of the secrets was sent."""
        del now
        said = wire.lines(delivery.headers, frozenset({self._name}))
        sent = None if said is None else self._sent(said.get(self._name))
        if sent is None:
            return Invalid(Flaw.MISSING)
        digest, found = sha256(sent).digest(), None
        for place, wanted in enumerate(self._digests):
            if hmac.compare_digest(digest, wanted) and found is None:
                found = place
        return Invalid(Flaw.WRONG) if found is None else Valid(found)

    def _sent(self, value: bytes | None) -> bytes | None:
        if value is None or self._kind is None:
            return value
        kind, _, token = value.partition(b" ")
        return token.strip(b" ") or None if kind.lower() == self._kind else None


class TokenSigner:
    """Sends the first secret in place of the one that came."""

    def __init__(self, token: Token, signature: Signature) -> None:
        before = "" if token.kind is None else f"{token.kind} "
        self._value = before.encode() + token.write(signature.secrets[0])
        self._header = token.header

    def sign(self, delivery: Delivery, now: float) -> Delivery:
        """See Signer. There is no time in it."""
        del now
        return delivery._replace(headers=wire.put(delivery.headers, (self._header,), self._value))


def scheme_of(token: Token) -> Scheme:
    """The scheme that a description describes."""

    def verifier(signature: Signature, keyring: Keyring) -> Verifier:
        del keyring  # the secrets are all there is to it
        return TokenVerifier(token, signature)

    def signer(signature: Signature) -> Signer:
        return TokenSigner(token, signature)

    return Scheme(
        name=token.name,
        headers=frozenset({token.header.lower().encode()}),
        carriers=frozenset({token.header.lower().encode()}),
        covered=frozenset(),
        covers_body=False,
        proof=token.proof,
        verifier=verifier,
        signer=signer,
        fault=token.fault,
    )


def _user_and_password(secret: str) -> bytes:
    return base64.b64encode(plain(secret))


def _no_pair(secret: str) -> str | None:
    return None if ":" in secret else "it is not USER:PASSWORD"


_BASIC = "RFC 7617, section 2"
_BEARER = "RFC 6750, section 2.1"

SCHEMES: tuple[Scheme, ...] = tuple(
    map(
        scheme_of,
        (
            Token("basic-auth", "Authorization", _BASIC, "Basic", _user_and_password, _no_pair),
            Token("bearer-token", "Authorization", _BEARER, "Bearer"),
            Token("gitlab-token", "X-Gitlab-Token", None),
            Token("okta-token", "Authorization", None),
            Token("telegram", "X-Telegram-Bot-Api-Secret-Token", None),
        ),
    )
)
