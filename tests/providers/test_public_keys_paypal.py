"""PayPal: what is signed, by whose certificate, and for which webhook."""

from __future__ import annotations

import pytest

from gateway.core.signature import Valid
from gateway.providers import schemes
from tests.providers import named_certificates as published
from tests.providers.certified import EXPIRED, MISSING, ROUTE, WRONG, check, paypal, web
from tests.providers.publishers import NOW, Web, certificate, pem, rsa_key, signature_of
from tests.providers.signed import delivery, with_one_byte_changed

FORGED_PAYPAL = [
    "http://api.paypal.com/v1/notifications/certs/CERT-1",
    "https://api.paypal.com.example.com/v1/notifications/certs/CERT-1",
    "https://example.com/v1/notifications/certs/CERT-1",
    "https://api.paypal.com@example.com/v1/notifications/certs/CERT-1",
    "https://evilpaypal.com/v1/notifications/certs/CERT-1",
    "https://api.paypal.com/v1/notifications/certs/CERT-1?x",
    "https://api.paypal.com/v1/notifications/certs/../CERT-1",
    "https://www.paypal.com/uploads/CERT-1",
]


@pytest.mark.parametrize("url", FORGED_PAYPAL)
async def test_no_certificate_of_another_host_than_paypals_is_asked_for(url: str) -> None:
    source = web()
    source.documents[url] = certificate(rsa_key("one"))
    assert await check(ROUTE["paypal"], paypal(url=url), source=source) == WRONG
    assert source.fetched == []


async def test_what_paypal_signed_itself_is_valid() -> None:
    signature = signature_of("paypal", webhook_id=published.PAYPAL_WEBHOOK_ID)
    source = Web()
    source.documents[published.PAYPAL_CERTIFICATE_URL] = published.PAYPAL_CERTIFICATE
    one = delivery(published.PAYPAL_HEADERS, published.PAYPAL_BODY)
    assert await check(signature, one, published.PAYPAL_TIME, source) == Valid(0)
    another = signature_of("paypal", webhook_id="3RN13029J36659324")
    assert await check(another, one, published.PAYPAL_TIME, source) == WRONG


async def test_a_last_retry_of_paypals_is_believed_under_its_first_stamp() -> None:
    days = 86_400
    key = pem(rsa_key("one")).decode()  # without dates of its own
    signature = signature_of("paypal", key, webhook_id="WH-1")
    assert await check(signature, paypal(), NOW + 3 * days) == Valid(0)
    assert await check(signature, paypal(), NOW + 4 * days) == EXPIRED


async def test_one_changed_byte_of_paypals_is_refused() -> None:
    verifier = schemes.verifier(ROUTE["paypal"], web().store())
    one = paypal()
    names = [name.decode() for name, _ in one.headers if name.startswith(b"PAYPAL")]
    for where, changed in with_one_byte_changed(one, names, body=True):
        # A name of another certificate is asked for, and nobody has it.
        assert not isinstance(await verifier.check(changed, NOW), Valid), where


@pytest.mark.parametrize(
    "changed",
    [
        {"PAYPAL-AUTH-ALGO": "SHA1withRSA"},
        {"PAYPAL-TRANSMISSION-ID": "t|1"},
        {"PAYPAL-TRANSMISSION-TIME": "today"},
        {"PAYPAL-TRANSMISSION-SIG": "é"},
        {"PAYPAL-CERT-URL": ""},
    ],
    ids=lambda changed: next(iter(changed)),
)
async def test_what_paypal_would_not_send_is_no_signature(changed: dict[str, str]) -> None:
    assert await check(ROUTE["paypal"], paypal(changed)) == MISSING
