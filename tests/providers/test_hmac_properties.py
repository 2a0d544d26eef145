"""Whatever the body and the secret: what was signed is accepted, and what was changed is not."""

from __future__ import annotations

import hmac
import json
from base64 import b64encode
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.event import Delivery
from gateway.core.signature import Flaw, Invalid, Valid
from gateway.providers import schemes
from tests.providers.signed import check, delivery, sign, signature_of

PUBLIC = ("discord", "sendgrid")
SHARED = [
    name
    for name in schemes.names()
    if "secrets" in schemes.scheme(name).needs and name not in PUBLIC
]
SIGNING = [name for name in SHARED if schemes.scheme(name).signs]
# What is under a Twilio signature is what a form says, however its bytes say it.
COVERED = [name for name in SIGNING if schemes.scheme(name).covers_body and name != "twilio"]
READ = sorted({name for one in SHARED for name in schemes.scheme(one).headers})
REFUSED = (Invalid(Flaw.WRONG), Invalid(Flaw.MISSING))
NOW = 1_790_000_000.0

texts = st.text(st.characters(exclude_categories=["Cs"]))
passwords = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)


def secrets_of(scheme: str) -> st.SearchStrategy[str]:
    """Texts that may be a secret of the scheme."""
    keys = st.binary(min_size=1, max_size=64)
    match scheme:
        case "standard-webhooks":
            return keys.map(lambda key: "whsec_" + b64encode(key).decode())
        case "adyen":
            return keys.map(bytes.hex)
        case "basic-auth":
            return st.builds("{}:{}".format, passwords.filter(lambda one: ":" not in one), texts)
        case "bearer-token" | "gitlab-token" | "okta-token" | "telegram":
            return st.from_regex(r"[!-~]{1,40}", fullmatch=True)
        case _:
            return passwords


def deliveries_of(scheme: str) -> st.SearchStrategy[Delivery]:
    """Deliveries that have all that the provider signs besides the body."""
    headers = {"Webhook-Id": "msg_1", "Twitch-Eventsub-Message-Id": "e76c6bd4"}
    match scheme:
        case "twilio":
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            pairs = st.dictionaries(texts, texts)
            return pairs.map(lambda some: delivery(headers, urlencode(some).encode()))
        case "linear":
            said = texts.map(lambda text: {"text": text, "webhookTimestamp": 1})
            return said.map(lambda one: delivery(headers, json.dumps(one).encode()))
        case "mailgun":
            token = {"timestamp": "1", "token": "t", "signature": ""}
            said = texts.map(lambda text: {"signature": token, "text": text})
            return said.map(lambda one: delivery(headers, json.dumps(one).encode()))
        case _:
            return st.binary().map(lambda body: delivery(headers, body))


@pytest.mark.parametrize("scheme", SIGNING)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
async def test_what_is_signed_is_accepted(scheme: str, data: st.DataObject) -> None:
    signature = signature_of(scheme, data.draw(secrets_of(scheme)))
    signed = sign(signature, data.draw(deliveries_of(scheme)), NOW)
    assert await check(signature, signed, NOW) == Valid(0)


@pytest.mark.parametrize("scheme", COVERED)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
async def test_one_flipped_bit_of_the_body_is_refused(scheme: str, data: st.DataObject) -> None:
    signature = signature_of(scheme, data.draw(secrets_of(scheme)))
    signed = sign(signature, data.draw(deliveries_of(scheme)), NOW)
    bit = data.draw(st.integers(0, 8 * len(signed.body) + 7))
    body = bytearray(signed.body + b"\0")
    body[bit // 8] ^= 1 << bit % 8
    assert await check(signature, signed._replace(body=bytes(body)), NOW) in REFUSED


@pytest.mark.parametrize("scheme", SHARED)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
async def test_no_junk_makes_a_check_raise_or_pass(scheme: str, data: st.DataObject) -> None:
    signature = signature_of(scheme, data.draw(secrets_of(scheme)))
    names = sorted(schemes.scheme(scheme).headers) or READ
    junk = st.tuples(st.sampled_from(names), st.binary())
    lines = data.draw(st.lists(junk, max_size=6))
    body = data.draw(st.binary() | st.sampled_from(ALMOST))
    one = delivery({}, body)
    one = one._replace(headers=(*one.headers, *lines))
    assert await check(signature, one, NOW) in REFUSED


@pytest.mark.parametrize("scheme", SIGNING)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
async def test_no_mangled_line_makes_a_check_raise(scheme: str, data: st.DataObject) -> None:
    signature = signature_of(scheme, data.draw(secrets_of(scheme)))
    signed = sign(signature, data.draw(deliveries_of(scheme)), NOW)
    place = data.draw(st.integers(0, len(signed.headers) - 1))
    name, value = signed.headers[place]
    cut = data.draw(st.integers(0, len(value)))
    line = (name, value[:cut] + data.draw(st.binary()) + value[cut:])
    lines = (*signed.headers[:place], line, *signed.headers[place + 1 :])
    await check(signature, signed._replace(headers=lines), NOW)


@pytest.mark.parametrize("scheme", SIGNING)
def test_a_scheme_under_which_the_mac_of_a_token_is_a_signature_says_so(scheme: str) -> None:
    """Else a handshake's proof, which anybody may ask for, would sign forgeries."""
    headers = {"Webhook-Id": "1", "Twitch-Eventsub-Message-Id": "1", "Content-Type": "text/plain"}
    mailgun = b'{"signature":{"timestamp":"1","token":"5","signature":""}}'
    secret = {"standard-webhooks": b64encode(b"a:b").decode()}.get(scheme, "a:b")
    found = set()
    for body in (b"1790000000abc", mailgun):
        signed = sign(signature_of(scheme, secret), delivery(headers, body), NOW)
        found.add(b"\n".join((*(value for _, value in signed.headers), signed.body)))
    made = [
        hmac.digest(b"a:b", token, digest)
        for token in (b"1790000000abc", b"17900000005")
        for digest in ("sha1", "sha256")
    ]
    marks = {mark for one in made for mark in (one.hex().encode(), b64encode(one))}
    assert schemes.scheme(scheme).bare == any(mark in one for mark in marks for one in found)


ALMOST = (
    b"{}",
    b"[" * 100_000,
    b'{"signature":{"timestamp":"1","token":"t","signature":"' + b"0" * 64 + b'"}}',
    b'{"signature":{"timestamp":"\\ud800","token":"\\ud800","signature":"' + b"0" * 64 + b'"}}',
    b'{"notificationItems":[]}',
    b'{"notificationItems":[{"NotificationRequestItem":{}}]}',
    b'{"notificationItems":[{"NotificationRequestItem":{"additionalData":{"hmacSignature":"'
    + b"A" * 43
    + b'="},"pspReference":"\\ud800","amount":7}}]}',
    b"bt_signature=a%7C" + b"0" * 40 + b"&bt_payload=AAAA",
    b'{"webhookTimestamp":' + b"9" * 5000 + b"}",
)
