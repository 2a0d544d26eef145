"""Certified: deliveries of SNS and PayPal, whose signature is of a certificate that they name."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

from gateway.core.event import Delivery
from gateway.core.signature import Checked, Flaw, Invalid, Signature
from gateway.providers import schemes
from tests.providers.publishers import NOW, Web, certificate, rsa_key, signature_of
from tests.providers.signed import BODY, delivery

WRONG, MISSING, EXPIRED = (Invalid(flaw) for flaw in (Flaw.WRONG, Flaw.MISSING, Flaw.EXPIRED))
TOPIC = "arn:aws:sns:eu-west-1:123456789012:orders"
SNS_URL = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem"
PAYPAL_URL = "https://api.paypal.com/v1/notifications/certs/CERT-1234-abcd"
ISO = "2026-09-21T14:13:20.000Z"  # NOW

NOTIFICATION = {
    "Type": "Notification",
    "MessageId": "m-1",
    "TopicArn": TOPIC,
    "Subject": "My order",
    "Message": '{"order": 7, "note": "é\\n"}',
    "Timestamp": ISO,
    "UnsubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe",
}
CONFIRMATION = {
    "Type": "SubscriptionConfirmation",
    "MessageId": "m-2",
    "Token": "t" * 200,
    "TopicArn": TOPIC,
    "Message": "You have chosen to subscribe",
    "SubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription",
    "Timestamp": ISO,
}
SIGNED = {
    "Notification": "Message MessageId Subject Timestamp TopicArn Type",
    "SubscriptionConfirmation": "Message MessageId SubscribeURL Timestamp Token TopicArn Type",
    "UnsubscribeConfirmation": "Message MessageId SubscribeURL Timestamp Token TopicArn Type",
}


def sns(
    message: Mapping[str, Any], version: str = "1", url: str = SNS_URL, name: str = "one"
) -> dict[str, Any]:
    """The message with its signature, as the documentation says how to check one."""
    names = [name for name in SIGNED[message["Type"]].split() if message.get(name) is not None]
    text = "".join(f"{name}\n{message[name]}\n" for name in names).encode()
    digest = hashes.SHA1() if version == "1" else hashes.SHA256()
    made = b64encode(rsa_key(name).sign(text, PKCS1v15(), digest)).decode()
    return {**message, "SignatureVersion": version, "Signature": made, "SigningCertURL": url}


def posted(message: Mapping[str, Any], **headers: str) -> Delivery:
    usual = {
        "x-amz-sns-message-type": str(message.get("Type")),
        "x-amz-sns-message-id": str(message.get("MessageId")),
        "x-amz-sns-topic-arn": str(message.get("TopicArn")),
    }
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return delivery(usual | given, json.dumps(message, indent=2).encode())


def paypal(
    changed: Mapping[str, str] | None = None, name: str = "one", url: str = PAYPAL_URL
) -> Delivery:
    text = f"t-1|{ISO}|WH-1|{zlib.crc32(BODY)}".encode()
    headers = {
        "PAYPAL-AUTH-ALGO": "SHA256withRSA",
        "PAYPAL-CERT-URL": url,
        "PAYPAL-TRANSMISSION-ID": "t-1",
        "PAYPAL-TRANSMISSION-SIG": b64encode(
            rsa_key(name).sign(text, PKCS1v15(), hashes.SHA256())
        ).decode(),
        "PAYPAL-TRANSMISSION-TIME": ISO,
    }
    return delivery(headers | dict(changed or {}))


def web() -> Web:
    one = Web()
    one.documents = {url: certificate(rsa_key("one")) for url in (SNS_URL, PAYPAL_URL)}
    return one


ROUTE = {
    "aws-sns": signature_of("aws-sns", audience=TOPIC),
    "paypal": signature_of("paypal", webhook_id="WH-1"),
}


async def check(
    signature: Signature, one: Delivery, now: float = NOW, source: Web | None = None
) -> Checked:
    return await schemes.verifier(signature, (source or web()).store()).check(one, now)
