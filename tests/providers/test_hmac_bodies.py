"""Signatures inside the body, and headers that say what is signed."""

from __future__ import annotations

import hmac
import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha1
from urllib.parse import urlencode

import pytest

from gateway.core.batch import MOST_ITEMS
from gateway.core.event import Delivery
from gateway.core.signature import Flaw, Invalid, Valid
from gateway.providers import schemes
from tests.providers.signed import check, delivery, sign, signature_of

MISSING, WRONG, EXPIRED = (Invalid(flaw) for flaw in (Flaw.MISSING, Flaw.WRONG, Flaw.EXPIRED))
NOW = 1_790_000_000
KEY = "0123456789abcdef"


def adyen(**other: str) -> dict[str, object]:
    """An item, signed; `other`: members that differ from the usual."""
    item = {
        "pspReference": "P1",
        "merchantAccountCode": "Shop",
        "merchantReference": "order-1",
        "eventCode": "CAPTURE",
        "success": "true",
        **other,
    }
    fields = [
        item["pspReference"],
        item.get("originalReference", ""),
        item["merchantAccountCode"],
        item["merchantReference"],
        "1130",
        "EUR",
        item["eventCode"],
        item["success"],
    ]
    mark = hmac.digest(bytes.fromhex(KEY), ":".join(fields).encode(), "sha256")
    amount = {"value": 1130, "currency": "EUR"}
    return {
        **item,
        "amount": amount,
        "additionalData": {"hmacSignature": b64encode(mark).decode()},
    }


def batch(*items: Mapping[str, object]) -> Delivery:
    wrapped = [{"NotificationRequestItem": item} for item in items]
    return delivery({}, json.dumps({"live": "false", "notificationItems": wrapped}).encode())


async def test_each_item_of_adyens_has_to_be_right() -> None:
    signature = signature_of("adyen", "ff", KEY)
    first, second = adyen(), adyen(pspReference="P2", originalReference="P1")
    assert await check(signature, batch(first, second), NOW) == Valid(1)
    assert await check(signature, batch(second), NOW) == Valid(1)
    forged = {**second, "success": "false"}
    assert await check(signature, batch(first, forged), NOW) == WRONG
    assert await check(signature, batch(forged, first), NOW) == WRONG
    assert await check(signature, batch(first, {**second, "additionalData": {}}), NOW) == MISSING
    assert await check(signature, batch(), NOW) == MISSING


async def test_no_more_items_of_adyens_are_checked_than_a_batch_may_have() -> None:
    signature, item = signature_of("adyen", KEY), adyen()
    assert await check(signature, batch(*[item] * MOST_ITEMS), NOW) == Valid(0)
    assert await check(signature, batch(*[item] * (MOST_ITEMS + 1)), NOW) == MISSING


async def test_a_member_of_adyens_that_occurs_twice_is_not_believed() -> None:
    signature = signature_of("adyen", KEY)
    one = batch(adyen())
    body = one.body.replace(b'"eventCode"', b'"originalReference": "P9", "eventCode"')
    assert await check(signature, one._replace(body=body), NOW) == WRONG
    twice = body.replace(b'"eventCode"', b'"originalReference": "P8", "eventCode"')
    assert await check(signature, one._replace(body=twice), NOW) == MISSING


async def test_adyen_may_escape_what_divides_the_fields() -> None:
    item = adyen(merchantReference="a\\:b\\\\c")
    item["merchantReference"] = "a:b\\c"
    assert await check(signature_of("adyen", KEY), batch(item), NOW) == Valid(0)


async def test_a_header_of_adyens_covers_the_whole_body() -> None:
    one = batch(adyen())
    mark = b64encode(hmac.digest(bytes.fromhex(KEY), one.body, "sha256"))
    whole = one._replace(headers=(*one.headers, (b"HmacSignature", mark)))
    signature = signature_of("adyen", KEY)
    assert await check(signature, whole, NOW) == Valid(0)
    # That the items are right by themselves does not save a body that is not.
    assert await check(signature, whole._replace(body=one.body + b" "), NOW) == WRONG


def braintree(signature: str, payload: str) -> Delivery:
    return delivery({}, urlencode({"bt_signature": signature, "bt_payload": payload}).encode())


async def test_any_of_braintrees_pairs_may_be_the_right_one() -> None:
    key = schemes.scheme("braintree")
    assert not key.signs
    right = hmac.new(sha1(b"private").digest(), b"AAAA\n", sha1).hexdigest()
    signature = signature_of("braintree", "other", "private")
    both = f"first|{'0' * 40}&second|{right}"
    assert await check(signature, braintree(both, "AAAA\n"), NOW) == Valid(1)
    # As its library does: the line break may have got lost on the way.
    assert await check(signature, braintree(both, "AAAA"), NOW) == Valid(1)
    assert await check(signature, braintree(both, "AAAA\n\n"), NOW) == WRONG
    assert await check(signature, braintree(both, "AAAB\n"), NOW) == WRONG
    assert await check(signature, braintree(f"second|{right}", "AAAA\n<"), NOW) == MISSING
    assert await check(signature, braintree(right, "AAAA\n"), NOW) == MISSING


def mailgun(secret: str, time: object, *, form: bool = False) -> Delivery:
    mark = hmac.new(secret.encode(), f"{time}tok".encode(), "sha256").hexdigest()
    signature = {"timestamp": time, "token": "tok", "signature": mark}
    if form:
        return delivery({}, urlencode(signature).encode())
    return delivery({}, json.dumps({"signature": signature, "event-data": {"id": "e"}}).encode())


@pytest.mark.parametrize("one", [mailgun("key", str(NOW)), mailgun("key", NOW)])
async def test_mailguns_token_is_signed_with_its_time(one: Delivery) -> None:
    signature = signature_of("mailgun", "key", tolerance=900)
    assert await check(signature, one, NOW + 900) == Valid(0)
    assert await check(signature, one, NOW + 901) == EXPIRED
    assert await check(signature_of("mailgun", "other"), one, NOW) == WRONG
    later = sign(signature, one, NOW + 5000)
    assert await check(signature, later, NOW + 5000) == Valid(0)
    assert later.body.replace(b"1790005000", b"1790000000")[:60] == one.body[:60]
    assert b'"event-data": {"id": "e"}' in later.body


async def test_a_last_retry_of_mailguns_is_believed_under_its_first_stamp() -> None:
    signature, one = signature_of("mailgun", "key"), mailgun("key", str(NOW))
    minutes = 10 + 10 + 15 + 30 + 60 + 120 + 240  # the longer of the two schedules
    assert await check(signature, one, NOW + 60 * minutes) == Valid(0)
    assert await check(signature, one, NOW + 10 * 3600) == EXPIRED


async def test_mailgun_signs_forms_too() -> None:
    one = mailgun("key", NOW, form=True)
    assert await check(signature_of("mailgun", "key"), one, NOW) == Valid(0)
    assert sign(signature_of("mailgun", "key"), one, NOW + 9) == one


def linear(body: bytes, headers: Mapping[str, str] | None = None) -> Delivery:
    mark = hmac.new(b"key", body, "sha256").hexdigest()
    return delivery({**(headers or {}), "Linear-Signature": mark}, body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"webhookTimestamp":1790000000000}', Valid(0)),
        (b'{"webhookTimestamp":1790000060001}', EXPIRED),
        (b'{"webhookTimestamp":1789999939999}', EXPIRED),
        (b'{"webhookTimestamp":1790000000000,"webhookTimestamp":1790000000000}', MISSING),
        (b'{"webhookTimestamp":"soon"}', MISSING),
        (b"{}", MISSING),
        (b"no json", MISSING),
    ],
)
async def test_linears_time_is_in_the_body(body: bytes, said: Valid | Invalid) -> None:
    assert await check(signature_of("linear", "key"), linear(body), NOW) == said


async def test_linears_header_of_the_time_says_nothing() -> None:
    one = linear(b'{"webhookTimestamp":1790000000000}', {"Linear-Timestamp": "1"})
    assert await check(signature_of("linear", "key"), one, NOW) == Valid(0)


def test_signing_linear_anew_changes_only_the_time_in_the_body() -> None:
    one = linear(b'{"a": 1.50, "webhookTimestamp" : 17, "b":"\\u00e9"}')
    sent = sign(signature_of("linear", "key"), one, NOW)
    assert sent.body == b'{"a": 1.50, "webhookTimestamp" : 1790000000000, "b":"\\u00e9"}'


def contentful(listed: str, **headers: str) -> Delivery:
    signed = {
        "x-contentful-signed-headers": listed,
        "x-contentful-timestamp": f"{NOW}000",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    said = ";".join(
        f"{name}:{signed[name]}" for name in sorted(listed.split(",")) if name in signed
    )
    text = f"POST\n/hooks\n{said}\n{{}}".encode()
    mark = hmac.new(b"key", text, "sha256").hexdigest()
    return delivery({**signed, "x-contentful-signature": mark}, b"{}", "/hooks")


BOTH = "x-contentful-signed-headers,x-contentful-timestamp"


async def test_what_contentful_lists_has_to_be_there_and_has_to_list_itself() -> None:
    signature = signature_of("contentful", "key")
    assert await check(signature, contentful(BOTH), NOW) == Valid(0)
    listed = f"x-contentful-topic,{BOTH}"
    assert await check(signature, contentful(listed, x_contentful_topic="t"), NOW) == Valid(0)
    assert await check(signature, contentful(listed), NOW) == MISSING
    assert await check(signature, contentful("x-contentful-timestamp"), NOW) == MISSING
    assert await check(signature, contentful("x-contentful-signed-headers"), NOW) == MISSING


async def test_another_value_of_a_header_that_contentful_signed_is_wrong() -> None:
    one = contentful(f"x-contentful-topic,{BOTH}", x_contentful_topic="publish")
    lines = tuple((name, value.replace(b"publish", b"delete")) for name, value in one.headers)
    changed = one._replace(headers=lines)
    assert await check(signature_of("contentful", "key"), changed, NOW) == WRONG
    sent = sign(signature_of("contentful", "key"), changed, NOW + 60)
    assert await check(signature_of("contentful", "key"), sent, NOW + 60) == Valid(0)


@pytest.mark.parametrize("how", ["utf-16", "utf-8-sig", "packed"])
async def test_a_body_of_adyens_that_is_read_otherwise_for_its_ids_is_not_believed(
    how: str,
) -> None:
    one = batch(adyen())
    signature = signature_of("adyen", KEY)
    assert await check(signature, one, NOW) == Valid(0)
    if how == "packed":
        forged = one._replace(headers=(*one.headers, (b"Content-Encoding", b"gzip")))
    else:
        forged = one._replace(body=one.body.decode().encode(how))
    assert isinstance(await check(signature, forged, NOW), Invalid)
