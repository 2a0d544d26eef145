"""Libraries of providers whose signatures say nothing of the time."""

from __future__ import annotations

import hmac
import json
import warnings
from base64 import b64encode
from hashlib import sha256
from urllib.parse import parse_qsl, urlencode

from gateway.core.event import Delivery
from tests.providers.library import URL, Library, accepted
from tests.providers.signed import BODY, delivery, headers_of

with warnings.catch_warnings():  # what they say of what they stand on is not about us
    warnings.simplefilter("ignore")
    import braintree
    from Adyen.util import (
        generate_notification_sig,
        generate_payload_sig,
        is_valid_hmac_notification,
        is_valid_hmac_payload,
    )
    from braintree.util.crypto import Crypto
    from coinbase_commerce.error import SignatureVerificationError as CoinbaseRefuses
    from coinbase_commerce.webhook import WebhookSignature
    from gidgethub import ValidationFailure
    from gidgethub.sansio import validate_event
    from mollie.utils.webhooks.signature_validator import (
        InvalidSignatureException,
        SignatureValidator,
    )
    from razorpay import Utility
    from razorpay.errors import SignatureVerificationError as RazorpayRefuses
    from square.utils.webhooks_helper import verify_signature
    from twilio.request_validator import RequestValidator

# No letters among the hex digits: Twilio signs what they mean, whatever their case.
FORM = b"AccountSid=AC1&Body=two+words&From=%2015550100&MessageSid=SM1&NumMedia=0&Extra="
_IS_FORM = "application/x-www-form-urlencoded"
_HEX = ("44782def547aaa06c910c43932b1eb0c", "0123456789abcdef0123456789ABCDEF")
_ITEM = {
    "eventCode": "AUTHORISATION",
    "success": "true",
    "eventDate": "2026-08-25T12:00:00+02:00",
    "merchantAccountCode": "Shop:NL",
    "merchantReference": "order-1",
    "pspReference": "7914073381342284",
    "amount": {"value": 1130, "currency": "EUR"},
}


def _twilio(secret: str, now: int) -> Delivery:
    pairs = dict(parse_qsl(FORM.decode(), keep_blank_values=True))
    mark = RequestValidator(secret).compute_signature(URL, pairs)
    return delivery(
        {"Content-Type": f"{_IS_FORM}; charset=UTF-8", "X-Twilio-Signature": mark}, FORM
    )


def _twilio_accepts(secret: str, one: Delivery) -> bool:
    pairs = dict(parse_qsl(one.body.decode(), keep_blank_values=True))
    mark = headers_of(one)["X-Twilio-Signature"]
    return bool(RequestValidator(secret).validate(URL, pairs, mark))


_IN_QUERY = f"?x=1&bodySHA256={sha256(BODY).hexdigest()}"


def _twilio_json(secret: str, now: int) -> Delivery:
    url = URL.partition("?")[0] + _IN_QUERY
    mark = RequestValidator(secret).compute_signature(url, {}, "HMAC_SHA256")
    settings = "key=webhooks_sharedkey_1,algorithm=HMAC_SHA256"
    headers = {"X-Twilio-Signature": mark, "X-Twilio-Webhooks-Signature-Settings": settings}
    headers["Content-Type"] = "application/json"
    return delivery(headers, BODY, "/hooks/shop" + _IN_QUERY)


def _twilio_json_accepts(secret: str, one: Delivery) -> bool:
    url = URL.partition("?")[0] + _IN_QUERY
    mark = headers_of(one)["X-Twilio-Signature"]
    return bool(RequestValidator(secret).validate(url, one.body.decode(), mark, "HMAC_SHA256"))


def _square(secret: str, now: int) -> Delivery:
    mark = hmac.digest(secret.encode(), URL.encode() + BODY, "sha256")
    return delivery({"x-square-hmacsha256-signature": b64encode(mark).decode()})


def _square_accepts(secret: str, one: Delivery) -> bool:
    return verify_signature(
        request_body=one.body.decode(),
        signature_header=headers_of(one)["x-square-hmacsha256-signature"],
        signature_key=secret,
        notification_url=URL,
    )


def _razorpay(secret: str, now: int) -> Delivery:
    return delivery({"X-Razorpay-Signature": hmac.new(secret.encode(), BODY, sha256).hexdigest()})


def _razorpay_accepts(secret: str, one: Delivery) -> bool:
    mark = headers_of(one)["X-Razorpay-Signature"]
    return accepted(
        RazorpayRefuses, lambda: Utility().verify_webhook_signature(one.body.decode(), mark, secret)
    )


def _coinbase(secret: str, now: int) -> Delivery:
    mark = WebhookSignature._compute_signature(BODY.decode(), secret)
    return delivery({"X-CC-Webhook-Signature": mark})


def _coinbase_accepts(secret: str, one: Delivery) -> bool:
    mark = headers_of(one)["X-CC-Webhook-Signature"]
    return accepted(
        CoinbaseRefuses, lambda: WebhookSignature.verify_sig_header(one.body.decode(), mark, secret)
    )


def _github(secret: str, now: int) -> Delivery:
    mark = "sha256=" + hmac.new(secret.encode(), BODY, sha256).hexdigest()
    return delivery({"X-Hub-Signature-256": mark})


def _github_accepts(secret: str, one: Delivery) -> bool:
    mark = headers_of(one)["X-Hub-Signature-256"]
    return accepted(
        ValidationFailure, lambda: validate_event(one.body, signature=mark, secret=secret)
    )


def _mollie(secret: str, now: int) -> Delivery:
    mark = "sha256=" + hmac.new(secret.encode(), BODY, sha256).hexdigest()
    return delivery({"X-Mollie-Signature": mark})


def _mollie_accepts(secret: str, one: Delivery) -> bool:
    mark = headers_of(one)["X-Mollie-Signature"]
    return accepted(
        InvalidSignatureException,
        lambda: SignatureValidator.validate(one.body.decode(), secret, mark),
    )


def _adyen(secret: str, now: int) -> Delivery:
    mark = generate_notification_sig(_ITEM, secret).decode()
    item = {**_ITEM, "additionalData": {"hmacSignature": mark}}
    body = {"live": "false", "notificationItems": [{"NotificationRequestItem": item}]}
    return delivery({}, json.dumps(body).encode())


def _adyen_accepts(secret: str, one: Delivery) -> bool:
    return bool(is_valid_hmac_notification(json.loads(one.body), secret))


def _adyen_platform(secret: str, now: int) -> Delivery:
    return delivery({"HmacSignature": generate_payload_sig(BODY, secret).decode()})


def _adyen_platform_accepts(secret: str, one: Delivery) -> bool:
    return bool(is_valid_hmac_payload(headers_of(one)["HmacSignature"], secret, one.body))


def _braintree(secret: str, now: int) -> Delivery:
    subject = b"<kind>check</kind><subject><check>true</check></subject>"
    payload = b64encode(b"<notification>" + subject + b"</notification>").decode() + "\n"
    signature = f"public|{Crypto.sha1_hmac_hash(secret, payload)}"
    form = urlencode({"bt_signature": signature, "bt_payload": payload})
    return delivery({"Content-Type": _IS_FORM}, form.encode())


def _braintree_accepts(secret: str, one: Delivery) -> bool:
    form = dict(parse_qsl(one.body.decode()))
    gateway = braintree.BraintreeGateway(
        braintree.Configuration(braintree.Environment.Sandbox, "shop", "public", secret)
    )
    return accepted(
        braintree.exceptions.invalid_signature_error.InvalidSignatureError,
        lambda: gateway.webhook_notification.parse(form["bt_signature"], form["bt_payload"]),
    )


UNDATED = (
    Library("adyen", "Adyen", "adyen", _adyen, _adyen_accepts, (), _HEX, covers_body=False),
    Library(
        "adyen platform",
        "Adyen",
        "adyen",
        _adyen_platform,
        _adyen_platform_accepts,
        ("HmacSignature",),
        _HEX,
    ),
    Library(
        "braintree",
        "braintree",
        "braintree",
        _braintree,
        _braintree_accepts,
        (),
        covers_body=False,
    ),
    Library(
        "coinbase",
        "coinbase-commerce",
        "coinbase-commerce",
        _coinbase,
        _coinbase_accepts,
        ("X-CC-Webhook-Signature",),
    ),
    Library("github", "gidgethub", "github", _github, _github_accepts, ("X-Hub-Signature-256",)),
    Library("mollie", "mollie-api-py", "mollie", _mollie, _mollie_accepts, ("X-Mollie-Signature",)),
    Library(
        "razorpay",
        "razorpay",
        "razorpay",
        _razorpay,
        _razorpay_accepts,
        ("X-Razorpay-Signature",),
    ),
    Library(
        "square",
        "squareup",
        "square",
        _square,
        _square_accepts,
        ("x-square-hmacsha256-signature",),
    ),
    Library("twilio", "twilio", "twilio", _twilio, _twilio_accepts, ("X-Twilio-Signature",)),
    Library(
        "twilio json",
        "twilio",
        "twilio",
        _twilio_json,
        _twilio_json_accepts,
        ("X-Twilio-Signature",),
    ),
)
