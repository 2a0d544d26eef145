"""Standard Webhooks: shared secrets and public keys side by side."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from mobiscroll_connect import WebhookVerificationError, verify_webhook_signature
from standardwebhooks import Webhook

from gateway.core.event import Delivery
from gateway.core.signature import Flaw, Invalid, Signature, Unchecked, Valid
from gateway.providers import schemes
from tests.providers.publishers import NOW, Web, ed_key, raw, signature_of
from tests.providers.signed import BODY, delivery, headers_of, sign

WRONG, MISSING, EXPIRED = (Invalid(flaw) for flaw in (Flaw.WRONG, Flaw.MISSING, Flaw.EXPIRED))
TIME = str(int(NOW))
SHARED = "whsec_" + b64encode(b"k" * 24).decode()
OTHER = "whsec_" + b64encode(b"o" * 24).decode()


def public(name: str) -> str:
    return "whpk_" + b64encode(raw(ed_key(name))).decode()


def v1(secret: str) -> str:
    return Webhook(secret).sign("msg_1", datetime.fromtimestamp(NOW, UTC), BODY.decode())


def v1a(name: str) -> str:
    text = b"msg_1." + TIME.encode() + b"." + BODY
    return "v1a," + b64encode(ed_key(name).sign(text)).decode()


def sent(*marks: str, spelling: str = "webhook", time: str = TIME) -> Delivery:
    values = {"id": "msg_1", "timestamp": time, "signature": " ".join(marks)}
    return delivery({f"{spelling}-{name}": value for name, value in values.items()})


async def check(signature: Signature, one: Delivery, now: float = NOW) -> object:
    return await schemes.verifier(signature, Web().store()).check(one, now)


@pytest.mark.parametrize(
    ("marks", "answer"),
    [
        ((v1(SHARED),), Valid(1)),
        ((v1a("one"),), Valid(0)),
        ((v1a("two"),), Valid(2)),
        ((v1a("three"), v1(SHARED)), Valid(1)),
        ((v1(OTHER), v1a("three"), v1a("two")), Valid(2)),
        ((v1(OTHER), v1a("three")), WRONG),
        ((v1a("three"),), WRONG),
        (("v2,abc",), MISSING),
        (("v1a,AAAA",), MISSING),
    ],
    ids=range(9),
)
async def test_any_valid_signature_of_either_kind_counts(
    marks: tuple[str, ...], answer: object
) -> None:
    signature = signature_of("standard-webhooks", public("one"), SHARED, public("two"))
    assert await check(signature, sent(*marks)) == answer


async def test_what_is_right_and_old_is_expired_whichever_kind_it_is() -> None:
    signature = signature_of("standard-webhooks", public("one"), SHARED)
    for mark in (v1(SHARED), v1a("one")):
        assert await check(signature, sent(mark), NOW + 300) in (Valid(0), Valid(1))
        assert await check(signature, sent(mark), NOW + 301) == EXPIRED
        assert await check(signature, sent(mark), NOW - 301) == EXPIRED


async def test_keys_that_cannot_be_had_matter_only_where_no_secret_is_right() -> None:
    signature = replace(
        signature_of("standard-webhooks", SHARED), keys=("https://keys.example.com/a",)
    )
    assert await check(signature, sent(v1(SHARED))) == Valid(0)
    assert isinstance(await check(signature, sent(v1a("one"))), Unchecked)
    assert await check(signature, delivery()) == MISSING


async def test_both_spellings_are_read_and_must_agree() -> None:
    signature = signature_of("standard-webhooks", public("one"))
    good = sent(v1a("one"), spelling="svix")
    assert await check(signature, good) == Valid(0)
    for more in ((b"webhook-id", b"msg_2"), (b"webhook-timestamp", b"1790000001")):
        assert await check(signature, good._replace(headers=(*good.headers, more))) == MISSING
    same = (*good.headers, (b"webhook-id", b"msg_1"))
    assert await check(signature, good._replace(headers=same)) == Valid(0)


async def test_a_provider_that_signs_with_public_keys_agrees_with_us() -> None:
    signature = signature_of("standard-webhooks", public("one"))
    cases = {
        "valid": sent(v1a("one")),
        "another among them": sent(v1a("two"), v1(SHARED), v1a("one")),
        "another key": sent(v1a("two")),
        "shared secret": sent(v1(SHARED)),
        "other body": sent(v1a("one"))._replace(body=BODY + b" "),
        "other time": sent(v1a("one"), time=str(int(NOW) + 1)),
        "no signature": sent(""),
    }
    for name, one in cases.items():
        try:
            verify_webhook_signature(one.body, headers_of(one), [public("one")], now=NOW)
            theirs = True
        except WebhookVerificationError:
            theirs = False
        assert (await check(signature, one) == Valid(0)) is theirs, name


def test_only_a_shared_secret_signs_anew() -> None:
    signature = replace(signature_of("standard-webhooks", public("one"), SHARED), resign=True)
    again = sign(signature, sent(v1a("one")), NOW)
    assert dict(again.headers)[b"webhook-signature"].decode() == v1(SHARED)
    with pytest.raises(ValueError, match="shared secret"):
        schemes.signer(replace(signature, secrets=(public("one"),)))
