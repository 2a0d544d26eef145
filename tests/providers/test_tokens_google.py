"""Google's own library: it signs what we accept, and accepts what we accept, and nothing else."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.core.signature import Invalid, Unchecked, Valid
from gateway.providers import schemes
from tests.providers.publishers import Web, certificate, jwk, jwks, private_pem, rsa_key
from tests.providers.signed import delivery
from tests.providers.test_tokens import GOOGLE, GOOGLE_KEYS

with warnings.catch_warnings():  # about its own dependencies
    warnings.simplefilter("ignore")
    from google.auth import crypt, exceptions
    from google.auth import jwt as google_jwt
    from google.oauth2 import id_token

# It looks at its own clock.
TODAY = int(time.time())
CLAIMS = {**GOOGLE.claims, "iat": TODAY - 600, "exp": TODAY + 3000}
AUDIENCE = str(GOOGLE.claims["aud"])


def made(claims: Mapping[str, Any], name: str = "one") -> str:
    signer = crypt.RSASigner.from_string(private_pem(rsa_key(name)), key_id="one")  # type: ignore[no-untyped-call]
    text: bytes = google_jwt.encode(signer, claims)  # type: ignore[no-untyped-call]
    return text.decode()


def theirs(token: str) -> bool:
    """Whether the library takes it, with the keys as Google publishes them for it."""
    certificates = {"one": certificate(rsa_key("one"), TODAY - 1e6, TODAY + 1e6).decode()}
    answer = SimpleNamespace(status=200, data=json.dumps(certificates).encode())
    try:
        id_token.verify_oauth2_token(token, lambda *_, **__: answer, AUDIENCE)  # type: ignore[no-untyped-call]
    except (ValueError, exceptions.GoogleAuthError):
        return False
    return True


async def ours(token: str) -> object:
    web = Web()
    web.documents[GOOGLE_KEYS] = jwks(jwk(rsa_key("one"), kid="one", alg="RS256", use="sig"))
    verifier = schemes.verifier(GOOGLE.signature, web.store())
    return await verifier.check(delivery({"Authorization": f"Bearer {token}"}), TODAY)


CASES = {
    "genuine": CLAIMS,
    "for somebody else": {**CLAIMS, "aud": "https://other.example.com"},
    "by somebody else": {**CLAIMS, "iss": "https://accounts.example.com"},
    "by the other name": {**CLAIMS, "iss": "accounts.google.com"},
    "over": {**CLAIMS, "iat": TODAY - 7200, "exp": TODAY - 3600},
    "not begun": {**CLAIMS, "iat": TODAY + 3600, "exp": TODAY + 7200},
}


@pytest.mark.parametrize("claims", CASES.values(), ids=CASES)
async def test_what_googles_library_says_of_its_own_token_is_what_we_say(
    claims: dict[str, Any],
) -> None:
    token = made(claims)
    answer = await ours(token)
    assert not isinstance(answer, Unchecked)
    assert (answer == Valid(0)) is theirs(token)


async def test_another_key_is_refused_by_both() -> None:
    token = made(CLAIMS, "two")
    assert isinstance(await ours(token), Invalid)
    assert not theirs(token)


def test_the_cases_have_both_answers() -> None:
    assert {theirs(made(claims)) for claims in CASES.values()} == {True, False}
