"""Tokens: whose they are, for whom, about which body and until when."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.event import Delivery
from gateway.core.signature import Checked, Flaw, Invalid, Signature, Unchecked, Valid
from gateway.providers import schemes
from tests.providers.publishers import (
    NOW,
    Private,
    Web,
    ec_key,
    jwk,
    jwks,
    pem,
    rsa_key,
    signature_of,
)
from tests.providers.signed import BODY, delivery, with_one_byte_changed

WRONG, MISSING, EXPIRED = (Invalid(flaw) for flaw in (Flaw.WRONG, Flaw.MISSING, Flaw.EXPIRED))
GOOGLE_KEYS = "https://www.googleapis.com/oauth2/v3/certs"
ENTRA_KEYS = "https://login.microsoftonline.com/common/discovery/v2.0/keys"
ISSUER = "https://sts.windows.net/00000000-0000-0000-0000-000000000001/"
DIGEST = hashlib.sha256(BODY).hexdigest()


@dataclass(frozen=True)
class Kind:
    """One provider's tokens."""

    signature: Signature
    header: str
    before: str
    algorithm: str
    key: Callable[[str], Private]
    claims: Mapping[str, Any]

    def sent(
        self,
        changed: Mapping[str, Any] | None = None,
        name: str = "one",
        headers: Mapping[str, Any] | None = None,
        *,
        without: str = "",
    ) -> Delivery:
        """With these claims, signed by the key of this name."""
        claims = {**self.claims, **(changed or {})}
        claims.pop(without, None)
        token = jwt.encode(claims, self.key(name), self.algorithm, {"kid": name, **(headers or {})})
        return delivery({self.header: self.before + token})


GOOGLE = Kind(
    signature_of("gcp-oidc", audience="https://hooks.example.com", email="push@p.iam.example"),
    "Authorization",
    "Bearer ",
    "RS256",
    rsa_key,
    {
        "iss": "https://accounts.google.com",
        "aud": "https://hooks.example.com",
        "email": "push@p.iam.example",
        "email_verified": True,
        "sub": "113774264463038321964",
        "iat": int(NOW) - 600,
        "exp": int(NOW) + 3000,
    },
)
ENTRA = Kind(
    signature_of("entra-oidc", audience="api://hooks", issuer=ISSUER),
    "Authorization",
    "Bearer ",
    "RS256",
    rsa_key,
    {
        "iss": ISSUER,
        "aud": "api://hooks",
        "iat": int(NOW) - 600,
        "nbf": int(NOW) - 600,
        "exp": int(NOW) + 3000,
    },
)
PLAID_KEYS = "https://keys.example.com/plaid"
PLAID = Kind(
    signature_of("plaid", keys=(PLAID_KEYS,)),
    "Plaid-Verification",
    "",
    "ES256",
    ec_key,
    {"iat": int(NOW), "request_body_sha256": DIGEST},
)
KINDS = {"google": GOOGLE, "entra": ENTRA, "plaid": PLAID}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
bearers = pytest.mark.parametrize("kind", [GOOGLE, ENTRA], ids=["google", "entra"])


def web(*names: str) -> Web:
    """Where each provider publishes the keys of these names."""
    one = Web()
    names = names or ("one",)
    rsa = jwks(*(jwk(rsa_key(name), kid=name, alg="RS256", use="sig") for name in names))
    one.documents = {
        GOOGLE_KEYS: rsa,
        ENTRA_KEYS: rsa,
        PLAID_KEYS: jwks(*(jwk(ec_key(name), kid=name, alg="ES256") for name in names)),
    }
    return one


async def check(
    kind: Kind, one: Delivery, *, source: Web | None = None, signature: Signature | None = None
) -> Checked:
    store = (source or web()).store()
    return await schemes.verifier(signature or kind.signature, store).check(one, NOW)


@every_kind
async def test_a_genuine_token_is_valid(kind: Kind) -> None:
    assert await check(kind, kind.sent()) == Valid(0)


@every_kind
async def test_one_changed_byte_of_a_token_is_refused(kind: Kind) -> None:
    verifier = schemes.verifier(kind.signature, web().store())
    for where, changed in with_one_byte_changed(kind.sent(), [kind.header], body=False):
        lower = dict(changed.headers)[kind.header.encode()].startswith(b"bearer ")
        assert isinstance(await verifier.check(changed, NOW), Valid if lower else Invalid), where


@pytest.mark.parametrize("body", [BODY + b" ", BODY[:-1], b"", BODY.replace(b"7", b"8")])
async def test_a_body_that_plaid_did_not_digest_is_refused(body: bytes) -> None:
    assert await check(PLAID, PLAID.sent()._replace(body=body)) == WRONG


@pytest.mark.parametrize(
    ("kind", "claim", "value"),
    [
        (GOOGLE, "aud", "https://other.example.com"),
        (GOOGLE, "aud", None),
        (GOOGLE, "aud", []),
        (GOOGLE, "aud", {"https://hooks.example.com": 1}),
        (GOOGLE, "iss", "https://accounts.google.com.example.com"),
        (GOOGLE, "email", "somebody@else.example"),
        (GOOGLE, "email", None),
        (GOOGLE, "email_verified", False),
        (GOOGLE, "email_verified", "true"),
        (GOOGLE, "email_verified", None),
        (ENTRA, "aud", "api://other"),
        (ENTRA, "iss", ISSUER.replace("1", "2")),
        (ENTRA, "iss", None),
        (PLAID, "request_body_sha256", DIGEST.upper()),
        (PLAID, "request_body_sha256", None),
        (PLAID, "request_body_sha256", 7),
    ],
)
async def test_a_genuine_token_of_or_for_somebody_else_is_refused(
    kind: Kind, claim: str, value: object
) -> None:
    one = kind.sent(without=claim) if value is None else kind.sent({claim: value})
    assert await check(kind, one) == WRONG


async def test_a_token_may_be_for_several_and_a_route_may_be_called_several_names() -> None:
    one = ENTRA.sent({"aud": ["api://x", "api://hooks"]})
    assert await check(ENTRA, one) == Valid(0)
    more = replace(
        ENTRA.signature,
        expected=(("audience", "a"), *ENTRA.signature.expected, ("audience", "api://y")),
    )
    assert await check(ENTRA, ENTRA.sent({"aud": "api://y"}), signature=more) == Valid(0)


@bearers
@pytest.mark.parametrize(
    ("changed", "answer"),
    [
        ({"exp": int(NOW) - 60}, Valid(0)),
        ({"exp": int(NOW) - 61}, EXPIRED),
        ({"iat": int(NOW) + 60}, Valid(0)),
        ({"iat": int(NOW) + 61}, EXPIRED),
        ({"nbf": int(NOW) + 60}, Valid(0)),
        ({"nbf": int(NOW) + 61}, EXPIRED),
        ({"iat": int(NOW) - 86_461}, EXPIRED),
        ({"exp": 10**400}, Valid(0)),
        ({"exp": float("nan")}, EXPIRED),
        ({"iat": float("nan")}, EXPIRED),
        ({"iat": -float("inf")}, EXPIRED),
        ({"exp": True}, EXPIRED),
        ({"exp": "2030"}, EXPIRED),
        ({"nbf": "now"}, EXPIRED),
        ({"nbf": False}, EXPIRED),
    ],
    ids=str,
)
async def test_a_token_counts_from_when_it_was_made_until_it_ends(
    kind: Kind, changed: dict[str, object], answer: Checked
) -> None:
    assert await check(kind, kind.sent(changed)) == answer
    # What is wrong is not called expired.
    if answer == EXPIRED:
        assert await check(kind, kind.sent({**changed, "aud": "other"})) == WRONG


@bearers
@pytest.mark.parametrize("claim", ["exp", "iat"])
async def test_a_token_without_an_end_or_a_beginning_is_refused(kind: Kind, claim: str) -> None:
    assert await check(kind, kind.sent(without=claim)) == EXPIRED


@pytest.mark.parametrize(
    ("off", "is_late"), [(-301, True), (-300, False), (300, False), (301, True)]
)
async def test_plaids_tokens_are_good_for_five_minutes(off: int, is_late: bool) -> None:
    one = PLAID.sent({"iat": int(NOW) + off})
    assert await check(PLAID, one) == (EXPIRED if is_late else Valid(0))
    anytime = replace(PLAID.signature, tolerance=None)
    assert await check(PLAID, one, signature=anytime) == Valid(0)


@every_kind
async def test_a_rotated_key_counts_until_its_set_leaves_it_out(kind: Kind) -> None:
    source = web("one")
    verifier = schemes.verifier(kind.signature, source.store())
    assert await verifier.check(kind.sent(), NOW) == Valid(0)
    source.documents = web("one", "two").documents
    source.time += 61
    assert await verifier.check(kind.sent(name="two"), NOW) == Valid(0)
    assert await verifier.check(kind.sent(), NOW) == Valid(0)
    source.documents = web("two").documents
    source.time += 61
    assert await verifier.check(kind.sent(name="three"), NOW) == WRONG
    assert await verifier.check(kind.sent(), NOW) == WRONG
    assert await verifier.check(kind.sent(name="two"), NOW) == Valid(0)


@every_kind
async def test_a_key_under_another_ones_name_does_not_count(kind: Kind) -> None:
    source = web("one", "two")
    assert await check(kind, kind.sent(name="two", headers={"kid": "one"}), source=source) == WRONG


@every_kind
async def test_a_token_that_names_no_key_is_tried_on_all_of_them(kind: Kind) -> None:
    claims = dict(kind.claims)
    token = jwt.encode(claims, kind.key("two"), kind.algorithm)
    one = delivery({kind.header: kind.before + token})
    assert await check(kind, one, source=web("one", "two")) == Valid(0)
    assert await check(kind, one) == WRONG


@every_kind
async def test_keys_of_a_file_come_first_where_they_are_named_first(
    kind: Kind, tmp_path: Path
) -> None:
    file = tmp_path / "keys.pem"
    file.write_bytes(pem(kind.key("file")))
    signature = replace(kind.signature, keys=(str(file), *(kind.signature.keys or (GOOGLE_KEYS,))))
    assert await check(kind, kind.sent(name="file"), signature=signature) == Valid(0)
    assert await check(kind, kind.sent(), signature=signature) == Valid(1)


@every_kind
async def test_without_the_keys_nobody_knows(kind: Kind) -> None:
    source = web()
    source.is_away = True
    assert isinstance(await check(kind, kind.sent(), source=source), Unchecked)
    assert await check(kind, delivery(), source=source) == MISSING


@every_kind
@given(noise=st.one_of(st.binary(max_size=80), st.text("eyJ.=_-A0", max_size=80)))
async def test_whatever_stands_for_a_token_a_check_never_raises(
    kind: Kind, noise: bytes | str
) -> None:
    text = noise.encode() if isinstance(noise, str) else noise
    lines = ((kind.header.encode(), kind.before.encode() + text),)
    assert await check(kind, delivery()._replace(headers=lines)) in (MISSING, WRONG)


@pytest.mark.parametrize(
    ("scheme", "missing"),
    [("gcp-oidc", "audience"), ("gcp-oidc", "email"), ("entra-oidc", "issuer")],
)
def test_what_says_whom_it_is_for_has_to_be_set(scheme: str, missing: str) -> None:
    kind = GOOGLE if scheme == "gcp-oidc" else ENTRA
    rest = tuple(pair for pair in kind.signature.expected if pair[0] != missing)
    with pytest.raises(ValueError, match=missing):
        schemes.verifier(replace(kind.signature, expected=rest), web().store())
