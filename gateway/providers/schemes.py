"""All schemes by name, and what the app makes of a route's signature.

scheme(NAME).headers, .covers_body, .dated, .tolerance, .signs, .needs, .proof, .fault(SECRET)
carriers(), verifier(signature, keyring), signer(signature)
"""

from __future__ import annotations

from difflib import get_close_matches

from gateway.core.signature import Signature
from gateway.providers import (
    adyen,
    certificates,
    contentful,
    hubspot,
    in_body,
    netlify,
    public_keys,
    shared_secrets,
    standard_webhooks,
    static_tokens,
    tokens,
    twilio,
)
from gateway.providers.keyset import Keyring
from gateway.providers.scheme import Scheme, Signer, Verifier

_ALL: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        adyen.SCHEME,
        *certificates.SCHEMES,
        contentful.SCHEME,
        hubspot.SCHEME,
        *in_body.SCHEMES,
        netlify.SCHEME,
        *public_keys.SCHEMES,
        *shared_secrets.SCHEMES,
        *static_tokens.SCHEMES,
        *tokens.SCHEMES,
        twilio.SCHEME,
    )
}
_ALL["standard-webhooks"] = standard_webhooks.with_public_keys(_ALL["standard-webhooks"])


def names() -> tuple[str, ...]:
    """All schemes, in the order of the alphabet."""
    return tuple(sorted(_ALL))


def scheme(name: str) -> Scheme:
    """One by its name. Raises LookupError that says which there are."""
    if name not in _ALL:
        near = get_close_matches(name, _ALL, 3) or names()
        raise LookupError(f"no signature scheme is called {name!r}; there is {', '.join(near)}")
    return _ALL[name]


def carriers() -> frozenset[bytes]:
    """Lower-case names of all headers that have a signature or a token in them."""
    return frozenset().union(*(scheme.carriers for scheme in _ALL.values()))


def verifier(signature: Signature, keyring: Keyring) -> Verifier:
    """What checks a route's deliveries. `keyring`: for schemes with public keys."""
    return scheme(signature.scheme).verifier(signature, keyring)


def signer(signature: Signature) -> Signer | None:
    """What signs a route's deliveries anew; None where it does not ask for it, or nobody can."""
    make = scheme(signature.scheme).signer
    return make(signature) if make is not None and signature.resign else None
