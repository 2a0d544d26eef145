"""Libraries of providers that sign when they send."""

from __future__ import annotations

import hmac
import json
import warnings
from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256
from types import SimpleNamespace

from gateway.core.event import Delivery
from tests.providers.library import URL, Library, accepted
from tests.providers.signed import BODY, delivery, headers_of

with warnings.catch_warnings():  # what they say of what they stand on is not about us
    warnings.simplefilter("ignore")
    import stripe
    from hubspot.utils.signature import Signature as HubSpotSignature
    from mailgun.security import SecurityGuard
    from paddle_billing.Notifications import Secret, Verifier
    from paddle_billing.Notifications.PaddleSignature import PaddleSignature
    from slack_sdk.signature import SignatureVerifier
    from standardwebhooks import Webhook as StandardWebhook
    from standardwebhooks import WebhookVerificationError
    from svix.webhooks import Webhook as SvixWebhook

STANDARD_SECRETS = (
    "whsec_" + b64encode(b"k" * 24).decode(),
    "whsec_" + b64encode(b"o" * 32).decode(),
)


def _stripe(secret: str, now: int) -> Delivery:
    header = stripe.WebhookSignature.generate_signature_header(BODY.decode(), secret, now)
    return delivery({"Stripe-Signature": header})


def _stripe_accepts(secret: str, one: Delivery) -> bool:
    header = headers_of(one)["Stripe-Signature"]
    return accepted(
        stripe.SignatureVerificationError,
        lambda: stripe.WebhookSignature.verify_header(one.body, header, secret, 300),
    )


def _standard(secret: str, now: int) -> Delivery:
    when = datetime.fromtimestamp(now, UTC)
    mark = StandardWebhook(secret).sign("msg_1", when, BODY.decode())
    return delivery(
        {"webhook-id": "msg_1", "webhook-timestamp": str(now), "webhook-signature": mark}
    )


def _standard_accepts(secret: str, one: Delivery) -> bool:
    return accepted(
        WebhookVerificationError, lambda: StandardWebhook(secret).verify(one.body, headers_of(one))
    )


def _svix(secret: str, now: int) -> Delivery:
    mark = SvixWebhook(secret).sign("msg_1", datetime.fromtimestamp(now, UTC), BODY.decode())
    return delivery({"svix-id": "msg_1", "svix-timestamp": str(now), "svix-signature": mark})


def _svix_accepts(secret: str, one: Delivery) -> bool:
    return accepted(
        WebhookVerificationError, lambda: SvixWebhook(secret).verify(one.body, headers_of(one))
    )


def _bigcommerce(secret: str, now: int) -> Delivery:
    return _standard(b64encode(secret.encode()).decode(), now)


def _bigcommerce_accepts(secret: str, one: Delivery) -> bool:
    # github.com/bigcommerce/docs, docs/integrations/webhooks/https-webhook-overview.mdx
    return _standard_accepts(b64encode(secret.encode()).decode(), one)


def _slack(secret: str, now: int) -> Delivery:
    mark = SignatureVerifier(secret).generate_signature(timestamp=str(now), body=BODY)
    return delivery({"X-Slack-Signature": str(mark), "X-Slack-Request-Timestamp": str(now)})


def _slack_accepts(secret: str, one: Delivery) -> bool:
    return SignatureVerifier(secret).is_valid_request(one.body, headers_of(one))


def _hubspot(secret: str, now: int) -> Delivery:
    mark = HubSpotSignature.get_signature(secret, BODY.decode(), "v3", URL, "POST", str(now * 1000))
    headers = {"X-HubSpot-Signature-v3": mark, "X-HubSpot-Request-Timestamp": str(now * 1000)}
    return delivery(headers)


def _hubspot_accepts(secret: str, one: Delivery) -> bool:
    said = headers_of(one)
    mark, stamp = said["X-HubSpot-Signature-v3"], said["X-HubSpot-Request-Timestamp"]
    body = one.body.decode()
    return bool(HubSpotSignature.is_valid(mark, secret, body, URL, one.method, "v3", stamp))


def _paddle(secret: str, now: int) -> Delivery:
    mark = PaddleSignature.calculate_hmac(secret, f"{now}:".encode() + BODY).hexdigest()
    return delivery({"Paddle-Signature": f"ts={now};h1={mark}"})


def _paddle_accepts(secret: str, one: Delivery) -> bool:
    request = SimpleNamespace(headers=headers_of(one), body=one.body)
    # Its five seconds are Paddle's; a slow machine is not what is tried here.
    return bool(Verifier(maximum_variance=300).verify(request, Secret(secret)))


def _mailgun(secret: str, now: int) -> Delivery:
    mark = hmac.new(secret.encode(), f"{now}token".encode(), sha256).hexdigest()
    signature = {"timestamp": str(now), "token": "token", "signature": mark}
    return delivery({}, json.dumps({"signature": signature, "event-data": {"id": "1"}}).encode())


def _mailgun_accepts(secret: str, one: Delivery) -> bool:
    said = json.loads(one.body)["signature"]
    return SecurityGuard.verify_webhook(secret, said["token"], said["timestamp"], said["signature"])


_OF_STANDARD = ("webhook-id", "webhook-timestamp", "webhook-signature")
_OF_SVIX = ("svix-id", "svix-timestamp", "svix-signature")

DATED = (
    Library(
        "bigcommerce",
        "standardwebhooks",
        "bigcommerce",
        _bigcommerce,
        _bigcommerce_accepts,
        _OF_STANDARD,
    ),
    Library(
        "hubspot",
        "hubspot-api-client",
        "hubspot-v3",
        _hubspot,
        _hubspot_accepts,
        ("X-HubSpot-Signature-v3", "X-HubSpot-Request-Timestamp"),
    ),
    Library("mailgun", "mailgun", "mailgun", _mailgun, _mailgun_accepts, (), covers_body=False),
    Library(
        "paddle", "paddle-python-sdk", "paddle", _paddle, _paddle_accepts, ("Paddle-Signature",)
    ),
    Library(
        "slack",
        "slack-sdk",
        "slack",
        _slack,
        _slack_accepts,
        ("X-Slack-Signature", "X-Slack-Request-Timestamp"),
    ),
    Library(
        "standard-webhooks",
        "standardwebhooks",
        "standard-webhooks",
        _standard,
        _standard_accepts,
        _OF_STANDARD,
        STANDARD_SECRETS,
    ),
    Library("stripe", "stripe", "stripe", _stripe, _stripe_accepts, ("Stripe-Signature",)),
    Library("svix", "svix", "standard-webhooks", _svix, _svix_accepts, _OF_SVIX, STANDARD_SECRETS),
)
