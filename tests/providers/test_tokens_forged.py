"""Forged tokens: what JSON Web Tokens have been broken with."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

import jwt
import pytest

from gateway.core.event import Delivery
from gateway.core.signature import Flaw, Invalid, Valid
from gateway.providers import schemes
from tests.providers.publishers import NOW, ec_key, pem, rsa_key, signature_of
from tests.providers.signed import BODY, delivery
from tests.providers.test_tokens import KINDS, Kind, check, web

WRONG, MISSING = Invalid(Flaw.WRONG), Invalid(Flaw.MISSING)
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def part(content: object) -> str:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def token(header: Mapping[str, Any], claims: Mapping[str, Any], signature: bytes) -> str:
    return f"{part(header)}.{part(claims)}.{part(signature)}"


def sent(kind: Kind, text: str) -> Delivery:
    return delivery({kind.header: kind.before + text})


@every_kind
@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None, 7, ["RS256"]])
async def test_a_token_without_an_algorithm_is_none(kind: Kind, algorithm: object) -> None:
    for signature in (b"", b"x" * 256):
        text = token({"alg": algorithm, "kid": "one"}, kind.claims, signature)
        assert await check(kind, sent(kind, text)) == MISSING


@every_kind
@pytest.mark.parametrize("secret", ["PEM", "stripped PEM"])
async def test_a_public_key_is_no_shared_secret(kind: Kind, secret: str) -> None:
    key = pem(kind.key("one"))
    key = key.strip() if secret == "stripped PEM" else key
    head = {"alg": "HS256", "kid": "one", "typ": "JWT"}
    text = f"{part(head)}.{part(kind.claims)}"
    made = hmac.digest(key, text.encode(), "sha256")
    assert await check(kind, sent(kind, f"{text}.{part(made)}")) == MISSING


@every_kind
@pytest.mark.parametrize("other", ["RS384", "PS256", "ES256", "RS256"])
async def test_only_the_schemes_own_algorithm_counts(kind: Kind, other: str) -> None:
    key = ec_key("one") if other.startswith("ES") else rsa_key("one")
    text = jwt.encode(dict(kind.claims), key, other, {"kid": "one"})
    assert await check(kind, sent(kind, text)) == (Valid(0) if other == kind.algorithm else MISSING)


@every_kind
@pytest.mark.parametrize(
    "more",
    [
        {"crit": ["exp"]},
        {"crit": []},
        {"crit": ["b64"], "b64": True},
        {"crit": ["urn:mine"], "urn:mine": 1},
    ],
    ids=str,
)
async def test_what_a_token_calls_critical_is_not_passed_over(
    kind: Kind, more: dict[str, object]
) -> None:
    # Genuinely signed: put together by hand, because libraries refuse to.
    head = {"alg": kind.algorithm, "kid": "one", **more}
    text = f"{part(head)}.{part(kind.claims)}"
    algorithm = jwt.PyJWS().get_algorithm_by_name(kind.algorithm)
    made = algorithm.sign(text.encode(), kind.key("one"))
    assert await check(kind, sent(kind, f"{text}.{part(made)}")) == MISSING


@every_kind
@pytest.mark.parametrize(
    "more",
    [
        {"jwk": {"kty": "RSA", "n": "AQAB", "e": "AQAB"}},
        {"jku": "https://forger.example.com/keys"},
        {"x5u": "https://forger.example.com/certificate"},
    ],
    ids=lambda more: next(iter(more)),
)
async def test_a_key_that_a_token_brings_along_is_not_asked(
    kind: Kind, more: dict[str, object]
) -> None:
    source = web()
    one = kind.sent(name="forger", headers={"kid": "one", **more})
    assert await check(kind, one, source=source) == WRONG
    assert not any("forger" in url for url in source.fetched)


@every_kind
@pytest.mark.parametrize("kid", [7, None, ["one"], {"one": 1}, True])
async def test_a_key_id_is_a_text(kind: Kind, kid: object) -> None:
    text = token({"alg": kind.algorithm, "kid": kid}, kind.claims, b"x" * 64)
    assert await check(kind, sent(kind, text)) == MISSING


@every_kind
async def test_a_key_for_another_algorithm_does_not_count(kind: Kind) -> None:
    source = web()
    source.documents = {
        url: document.replace(f'"alg": "{kind.algorithm}"'.encode(), b'"alg": "PS512"')
        for url, document in source.documents.items()
    }
    assert not isinstance(await check(kind, kind.sent(), source=source), Valid)


@every_kind
@pytest.mark.parametrize(
    "claims", [b"", b"[]", b"7", b"{", b"\xff", b"[" * 100_000, b'{"iat": 1e999}']
)
async def test_claims_that_are_no_object_are_wrong(kind: Kind, claims: bytes) -> None:
    text = f"{part({'alg': kind.algorithm, 'kid': 'one'})}.{part(claims)}"
    algorithm = jwt.PyJWS().get_algorithm_by_name(kind.algorithm)
    made = algorithm.sign(text.encode(), kind.key("one"))
    assert await check(kind, sent(kind, f"{text}.{part(made)}")) in (WRONG, MISSING)


@every_kind
async def test_a_token_of_another_provider_is_refused(kind: Kind) -> None:
    for other in KINDS.values():
        if other is not kind:
            text = dict(other.sent().headers)[other.header.encode()].decode()
            answer = await check(kind, delivery({kind.header: text}))
            assert isinstance(answer, Invalid)


@every_kind
async def test_two_tokens_are_none(kind: Kind) -> None:
    one, two = kind.sent(), kind.sent({"jti": "2"})
    assert await check(kind, one._replace(headers=(*one.headers, *two.headers))) == MISSING


SECRET, OTHER = "short", "s" * 40


def netlify(body: bytes = BODY, secret: str = SECRET, **changed: object) -> Delivery:
    digest = hashlib.sha256(body).hexdigest()
    head = {"alg": "HS256", "typ": "JWT"}
    text = f"{part(head)}.{part({'iss': 'netlify', 'sha256': digest, **changed})}"
    made = hmac.digest(secret.encode(), text.encode(), "sha256")
    return delivery({"X-Webhook-Signature": f"{text}.{part(made)}"}, body)


async def test_netlifys_tokens_are_made_with_a_shared_secret() -> None:
    verifier = schemes.verifier(signature_of("netlify", OTHER, SECRET), web().store())
    assert await verifier.check(netlify(), NOW) == Valid(1)
    assert await verifier.check(netlify(secret=OTHER), NOW) == Valid(0)
    assert await verifier.check(netlify(secret="third"), NOW) == WRONG
    assert await verifier.check(netlify(iss="other"), NOW) == WRONG
    assert await verifier.check(netlify(sha256="0" * 64), NOW) == WRONG
    assert await verifier.check(netlify()._replace(body=BODY + b"\n"), NOW) == WRONG
    assert await verifier.check(delivery(), NOW) == MISSING


def test_a_public_key_is_no_secret_of_netlifys() -> None:
    fault = schemes.scheme("netlify").fault
    assert fault(SECRET) is None
    assert "secret" in (fault(pem(rsa_key("one")).decode()) or "")
