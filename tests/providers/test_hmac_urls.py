"""Signatures over the URL: what the provider called, and who may say so."""

from __future__ import annotations

import hmac
from base64 import b64encode
from hashlib import sha256

import pytest

from gateway.core.event import Delivery
from gateway.core.form import LONGEST, MOST_FIELDS
from gateway.core.signature import Flaw, Invalid, Valid
from gateway.providers.mac import unescaped
from tests.providers.signed import BODY, check, delivery, headers_of, sign, signature_of

MISSING, WRONG = Invalid(Flaw.MISSING), Invalid(Flaw.WRONG)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
FIELDS = b"AccountSid=AC1&Body=two+words&MessageSid=SM1"
SORTED = "AccountSidAC1Bodytwo wordsMessageSidSM1"


def squared(url: str) -> dict[str, str]:
    mark = hmac.digest(b"current", url.encode() + BODY, "sha256")
    return {"x-square-hmacsha256-signature": b64encode(mark).decode()}


def twilio(text: str, digest: str = "sha1") -> dict[str, str]:
    mark = hmac.digest(b"current", text.encode(), digest)
    return {"X-Twilio-Signature": b64encode(mark).decode()}


@pytest.mark.parametrize(
    ("public_url", "signed"),
    [
        (None, "https://hooks.example.com/hooks/shop?x=1"),
        ("http://example.org", "http://example.org/hooks/shop?x=1"),
        ("https://example.org:8443/", "https://example.org:8443/hooks/shop?x=1"),
        ("https://example.org/in/square", "https://example.org/in/square?x=1"),
        ("https://example.org/in?key=2", "https://example.org/in?key=2"),
        ("https://example.org?key=2", "https://example.org/hooks/shop?key=2"),
    ],
)
async def test_the_public_url_stands_in_for_what_the_request_says(
    public_url: str | None, signed: str
) -> None:
    signature = signature_of("square", "current", public_url=public_url)
    one = delivery(squared(signed))
    assert await check(signature, one, 0) == Valid(0)
    assert sign(signature, delivery(squared("")), 0) == one
    other = signature_of("square", "current", public_url="https://evil.example")
    assert await check(other, one, 0) == WRONG


async def test_a_forwarded_host_chooses_nothing() -> None:
    headers = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http"}
    signature = signature_of("square", "current")
    evil = delivery({**headers, **squared("http://evil.example/hooks/shop?x=1")})
    assert await check(signature, evil, 0) == WRONG
    ours = delivery({**headers, **squared("https://hooks.example.com/hooks/shop?x=1")})
    assert await check(signature, ours, 0) == Valid(0)


async def test_without_a_host_nobody_can_tell_the_url() -> None:
    one = delivery(squared("https://hooks.example.com/hooks/shop?x=1"))
    nameless = one._replace(headers=one.headers[1:])
    assert await check(signature_of("square", "current"), nameless, 0) == MISSING


def test_hubspot_signs_some_characters_of_a_url_as_themselves() -> None:
    escaped = b"https://a.example/x?q=%3A%2F%3F%40%21%24%27%28%29%2A%2C%3B&r=%20%25%3D%26&s=%2f"
    assert unescaped(escaped) == b"https://a.example/x?q=:/?@!$'()*,;&r=%20%25%3D%26&s=/"


@pytest.mark.parametrize("url", ["/hooks?a=%3A%2F", "/hooks?a=:/"])
async def test_hubspot_may_sign_the_url_either_way(url: str) -> None:
    text = f"POSThttps://hooks.example.com{url}".encode() + BODY + b"1790000000000"
    headers = {
        "X-HubSpot-Signature-v3": b64encode(hmac.digest(b"current", text, "sha256")).decode(),
        "X-HubSpot-Request-Timestamp": "1790000000000",
    }
    one = delivery(headers, target="/hooks?a=%3A%2F")
    assert await check(signature_of("hubspot-v3", "current"), one, 1_790_000_000) == Valid(0)


def test_hubspots_second_version_covers_the_url() -> None:
    came = delivery({"X-HubSpot-Signature": "stale", "X-HubSpot-Signature-Version": "v2"})
    sent = sign(signature_of("hubspot-v3", "current"), came, 0)
    text = b"currentPOSThttps://hooks.example.com/hooks/shop?x=1" + BODY
    assert headers_of(sent)["X-HubSpot-Signature"] == sha256(text).hexdigest()


@pytest.mark.parametrize("signed", ["https://a.example", "https://a.example:443"])
@pytest.mark.parametrize("public_url", ["https://a.example", "https://a.example:443"])
async def test_twilio_may_sign_with_or_without_the_port(signed: str, public_url: str) -> None:
    signature = signature_of("twilio", "current", public_url=public_url)
    one = delivery({**FORM, **twilio(f"{signed}/hooks/shop?x=1{SORTED}")}, FIELDS)
    assert await check(signature, one, 0) == Valid(0)


@pytest.mark.parametrize(
    ("public_url", "signed"),
    [
        ("https://[2001:db8::1]:8443", "https://[2001:db8::1]"),
        ("https://[2001:db8::1]", "https://[2001:db8::1]:443"),
        ("http://a.example", "http://a.example:80"),
    ],
)
async def test_a_port_is_told_from_an_address(public_url: str, signed: str) -> None:
    signature = signature_of("twilio", "current", public_url=public_url)
    one = delivery({**FORM, **twilio(f"{signed}/hooks/shop?x=1{SORTED}")}, FIELDS)
    assert await check(signature, one, 0) == Valid(0)


async def test_twilio_sorts_a_form_and_counts_repeats_once() -> None:
    signature = signature_of("twilio", "current")
    text = "https://hooks.example.com/hooks/shop?x=1Media1Media2To+1é"
    body = b"To=%2B1%C3%A9&Media=2&Media=1&Media=2&"
    assert await check(signature, delivery({**FORM, **twilio(text)}, body), 0) == Valid(0)


async def test_a_packed_form_of_twilios_is_not_believed() -> None:
    """Whoever unpacks it reads other fields than those that were signed."""
    signed = {**FORM, **twilio(f"https://hooks.example.com/hooks/shop?x=1{SORTED}")}
    signature = signature_of("twilio", "current")
    assert await check(signature, delivery(signed, FIELDS), 0) == Valid(0)
    for coding in ("gzip", "deflate", "identity"):
        packed = {**signed, "Content-Encoding": coding}
        assert await check(signature, delivery(packed, FIELDS), 0) == MISSING


@pytest.mark.parametrize("more", [b"&" * MOST_FIELDS, b"&a=" + b"b" * LONGEST])
async def test_a_form_of_twilios_that_is_too_much_to_read_is_not_believed(more: bytes) -> None:
    said = SORTED if more.strip(b"&") == b"" else f"{SORTED}a{'b' * LONGEST}"
    signed = {**FORM, **twilio(f"https://hooks.example.com/hooks/shop?x=1{said}")}
    signature = signature_of("twilio", "current")
    assert await check(signature, delivery(signed, FIELDS + more), 0) == MISSING


async def test_twilio_signs_a_get_by_its_url_alone() -> None:
    one = delivery(twilio("https://hooks.example.com/hooks/shop?x=1"), b"", method="GET")
    signature = signature_of("twilio", "current")
    assert await check(signature, one, 0) == Valid(0)
    assert await check(signature, one._replace(body=b"{}"), 0) == MISSING


def json_of_twilio(digest: str) -> Delivery:
    target = f"/hooks/shop?bodySHA256={digest}"
    return delivery(twilio(f"https://hooks.example.com{target}"), BODY, target)


async def test_twilio_covers_a_body_that_is_no_form_by_its_digest_in_the_query() -> None:
    signature = signature_of("twilio", "current")
    right = json_of_twilio(sha256(BODY).hexdigest())
    assert await check(signature, right, 0) == Valid(0)
    assert await check(signature, right._replace(body=BODY + b" "), 0) == MISSING
    assert await check(signature, json_of_twilio(sha256(b"").hexdigest()), 0) == MISSING
    assert await check(signature, json_of_twilio(""), 0) == MISSING
    # What the URL says of the body holds for every body, whatever it is called.
    assert await check(signature, right._replace(body=b""), 0) == MISSING
    form = (b"Content-Type", b"application/x-www-form-urlencoded")
    assert await check(signature, right._replace(headers=(*right.headers, form)), 0) == Valid(0)
    assert (
        await check(signature, right._replace(body=b"&&", headers=(*right.headers, form)), 0)
        == MISSING
    )


@pytest.mark.parametrize(
    ("settings", "digest", "said"),
    [
        ("key=webhooks_sharedkey_1,algorithm=HMAC_SHA256", "sha256", Valid(0)),
        ("key=webhooks_sharedkey_1, algorithm = hmac_sha256", "sha256", Valid(0)),
        ("key=webhooks_sharedkey_1", "sha1", Valid(0)),
        ("algorithm=HMAC_SHA256", "sha1", MISSING),
        ("algorithm=HMAC_MD5", "sha1", MISSING),
    ],
)
async def test_twilio_may_name_its_digest(
    settings: str, digest: str, said: Valid | Invalid
) -> None:
    headers = {**FORM, **twilio(f"https://hooks.example.com/hooks/shop?x=1{SORTED}", digest)}
    headers["X-Twilio-Webhooks-Signature-Settings"] = settings
    assert await check(signature_of("twilio", "current"), delivery(headers, FIELDS), 0) == said
