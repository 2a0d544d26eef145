"""Netlify: a JSON Web Token under a shared secret, with the digest of the body in it."""

from __future__ import annotations

import hashlib
import json

import jwt
from jwt.algorithms import HMACAlgorithm

from gateway.core.event import Delivery
from gateway.core.signature import Checked, Flaw, Invalid, Signature, Valid
from gateway.providers.scheme import Scheme
from gateway.providers.signing import plain
from gateway.providers.tokens import COMPACT, Reader, digest
from gateway.providers.wire import put


class _AnyLength(HMACAlgorithm):
    """Users choose these secrets at Netlify, which takes short ones; there is nothing to warn of
    at every delivery."""

    def check_key_length(self, key: bytes) -> str | None:
        return None


def _hs256() -> jwt.PyJWS:
    jws = jwt.PyJWS(algorithms=[])
    jws.register_algorithm("HS256", _AnyLength(HMACAlgorithm.SHA256))
    return jws


_NAMES = ("X-Webhook-Signature",)
_NETLIFY = Reader(b"x-webhook-signature", COMPACT, _hs256(), "HS256")
_NETLIFY_SIGNED = digest("sha256", iss="netlify")


class Netlify:
    """A token under a shared secret, with the body's digest in it."""

    def __init__(self, signature: Signature) -> None:
        self._secrets = tuple(map(plain, signature.secrets))

    async def check(self, delivery: Delivery, now: float) -> Checked:
        """Every secret is tried; PyJWT compares in constant time."""
        del now  # it has no time stamp
        token = _NETLIFY.read(delivery)
        if token is None:
            return Invalid(Flaw.MISSING)
        said = [_NETLIFY.claims(token, secret) for secret in self._secrets]
        for place, claims in enumerate(said):
            if claims is not None and _NETLIFY_SIGNED(claims, delivery):
                return Valid(place)
        return Invalid(Flaw.WRONG)

    def sign(self, delivery: Delivery, now: float) -> Delivery:
        """With the first secret, in place of the token that came."""
        del now
        claims = {"iss": "netlify", "sha256": hashlib.sha256(delivery.body).hexdigest()}
        written = json.dumps(claims, separators=(",", ":")).encode()
        token = _NETLIFY.jws.encode(written, self._secrets[0], "HS256").encode()
        return delivery._replace(headers=put(delivery.headers, _NAMES, token))


def _netlify_fault(secret: str) -> str | None:
    try:
        HMACAlgorithm(HMACAlgorithm.SHA256).prepare_key(plain(secret))
    except jwt.InvalidKeyError:
        return "is a public key, which everybody has; write the secret that was set at Netlify"
    return None


SCHEME = Scheme(
    name="netlify",
    headers=frozenset({_NETLIFY.header}),
    carriers=frozenset({_NETLIFY.header}),
    covered=frozenset(),
    covers_body=True,
    proof=None,
    verifier=lambda signature, keyring: Netlify(signature),
    signer=Netlify,
    fault=_netlify_fault,
)
