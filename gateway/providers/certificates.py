"""Certificates: providers that name the certificate of their signature in the delivery itself.

Whoever sends chooses that URL, so a pattern for all of it says which are the provider's own: a host
under its name, https, and the path under which it publishes certificates, without a query. What the
host then serves is believed because its TLS is. Keys of the route's own take the place of it all.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, HashAlgorithm

from gateway.core.document import is_out_of_proportion
from gateway.core.event import Delivery
from gateway.core.signature import Checked, Flaw, Invalid, Signature, Unchecked, Valid
from gateway.providers.keyset import Key, Keyring, Source, from_base64, from_text, search, sources
from gateway.providers.public_keys import fault_of, in_time
from gateway.providers.scheme import Scheme
from gateway.providers.stamps import Unit
from gateway.providers.wire import lines, members


@dataclass(frozen=True, slots=True)
class Signed:
    """What a delivery says about its signature."""

    certificate: str
    """The URL that it names."""
    signature: bytes
    text: bytes
    digest: HashAlgorithm
    time: float
    """Epoch seconds."""


Read = Callable[[Delivery], Signed | Flaw]


class CertificateVerifier:
    """Checks RSA signatures with the route's keys, or with the certificate that is named."""

    def __init__(
        self,
        read: Read,
        allowed: re.Pattern[str],
        places: tuple[Source, ...],
        keyring: Keyring,
        tolerance: float | None,
    ) -> None:
        """`allowed`: matches the whole URL of any certificate of the provider's."""
        self._read, self._allowed, self._places = read, allowed, places
        self._keyring, self._tolerance = keyring, tolerance

    async def check(self, delivery: Delivery, now: float) -> Checked:
        """Whether the owner of the certificate signed it."""
        signed = self._read(delivery)
        if isinstance(signed, Flaw):
            return Invalid(signed)
        if self._places:
            checked = await search(self._places, None, lambda key: _is_rsa(key, signed))
        elif self._allowed.fullmatch(signed.certificate):
            checked = await self._named(signed, now)
        else:
            checked = Invalid(Flaw.WRONG)
        return in_time(checked, signed.time, self._tolerance, now)

    async def _named(self, signed: Signed, now: float) -> Checked:
        found = await self._keyring.certificate(signed.certificate)
        if isinstance(found, Unchecked):
            return found
        current = [key for key in found if key.is_valid(now)]
        if not current:
            return Unchecked("the provider's certificate is out of its dates")
        right = any(_is_rsa(key, signed) for key in current)
        return Valid(0) if right else Invalid(Flaw.WRONG)


def _is_rsa(key: Key, signed: Signed) -> bool:
    if not isinstance(key.public, RSAPublicKey):
        return False
    try:
        key.public.verify(signed.signature, signed.text, PKCS1v15(), signed.digest)
    except InvalidSignature:
        return False
    return True


_SNS_CERTIFICATE = re.compile(
    # Regions only: sns.s3-us-west-2.amazonaws.com would be anybody's bucket of that name.
    r"https://sns\.(cn-[a-z]{2,16}-[0-9]{1,2}\.amazonaws\.com\.cn"
    r"|[a-z]{2}(-[a-z]{2,16}){1,3}-[0-9]{1,2}\.amazonaws\.com)"
    r"/SimpleNotificationService-[0-9A-Za-z]{1,64}\.pem"
)
_SNS_DIGESTS: Mapping[str, HashAlgorithm] = {"1": SHA1(), "2": SHA256()}
_NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_CONFIRMATION = (
    "Message",
    "MessageId",
    "SubscribeURL",
    "Timestamp",
    "Token",
    "TopicArn",
    "Type",
)
_SNS_SIGNED = {
    "Notification": _NOTIFICATION,
    "SubscriptionConfirmation": _CONFIRMATION,
    "UnsubscribeConfirmation": _CONFIRMATION,
}
# They repeat members of the body, and nobody signs them: without this, an id that was changed or
# left out here would make a new event of an old one.
_SNS_HEADERS = {
    b"x-amz-sns-message-id": "MessageId",
    b"x-amz-sns-message-type": "Type",
    b"x-amz-sns-topic-arn": "TopicArn",
}


def _sns(topics: frozenset[str]) -> Read:
    """Reads messages of these topics. Anybody's topic has the same certificate."""

    def read(delivery: Delivery) -> Signed | Flaw:
        headers = lines(delivery.headers, frozenset(_SNS_HEADERS))
        message = _sns_message(delivery.body)
        if headers is None or len(headers) < len(_SNS_HEADERS) or message is None:
            return Flaw.MISSING
        # Before anything is fetched for it.
        told = all(message[_SNS_HEADERS[name]].encode() == told for name, told in headers.items())
        if message["TopicArn"] not in topics or not told:
            return Flaw.WRONG
        return _sns_signed(message) or Flaw.MISSING

    return read


def _sns_message(body: bytes) -> dict[str, str] | None:
    """Those members of a message that matter, all of them texts."""
    if is_out_of_proportion(body):
        return None
    try:
        read = json.loads(body.decode("utf-8"), object_pairs_hook=members)
    except (ValueError, RecursionError):
        return None
    kind = read.get("Type") if isinstance(read, dict) else None
    if not isinstance(kind, str) or kind not in _SNS_SIGNED:
        return None
    if read.get("Subject") is None:
        read.pop("Subject", None)
    names = {*_SNS_SIGNED[kind], "Signature", "SignatureVersion", "SigningCertURL"}
    found = {name: read[name] for name in names if name in read}
    sound = all(isinstance(text, str) and _is_text(text) for text in found.values())
    return found if sound and names - found.keys() <= {"Subject"} else None


def _sns_signed(message: Mapping[str, str]) -> Signed | None:
    signature = from_base64(message["Signature"].encode())
    digest = _SNS_DIGESTS.get(message["SignatureVersion"])
    time = Unit.RFC_3339.read(message["Timestamp"].encode())
    if signature is None or digest is None or time is None:
        return None
    names = (name for name in _SNS_SIGNED[message["Type"]] if name in message)
    text = "".join(f"{name}\n{message[name]}\n" for name in names)
    return Signed(message["SigningCertURL"], signature, text.encode(), digest, time)


def _is_text(text: str) -> bool:
    """JSON can spell lone surrogates, which nobody can have signed."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


_PAYPAL_CERTIFICATE = re.compile(
    r"https://([a-z0-9-]{1,63}\.){1,3}paypal\.com"
    r"/v1/notifications/certs/CERT-[0-9A-Za-z-]{1,128}"
)
_PAYPAL = frozenset(
    {
        b"paypal-auth-algo",
        b"paypal-cert-url",
        b"paypal-transmission-id",
        b"paypal-transmission-sig",
        b"paypal-transmission-time",
    }
)
_TRANSMISSION = re.compile(rb"[0-9A-Za-z-]{1,64}")


def _paypal(webhook: str) -> Read:
    """Reads what was sent to this webhook; one of another has the same certificate."""

    def read(delivery: Delivery) -> Signed | Flaw:
        found = lines(delivery.headers, _PAYPAL)
        if found is None or len(found) < len(_PAYPAL):
            return Flaw.MISSING
        return _paypal_signed(found, delivery.body, webhook) or Flaw.MISSING

    return read


def _paypal_signed(found: Mapping[bytes, bytes], body: bytes, webhook: str) -> Signed | None:
    sent, written = found[b"paypal-transmission-id"], found[b"paypal-transmission-time"]
    signature = from_base64(found[b"paypal-transmission-sig"])
    time = Unit.RFC_3339.read(written)
    algorithm = found[b"paypal-auth-algo"]
    # The rest is divided by |, so none may be in what is sent.
    if algorithm != b"SHA256withRSA" or not _TRANSMISSION.fullmatch(sent):
        return None
    if signature is None or time is None:
        return None
    text = b"%b|%b|%b|%d" % (sent, written, webhook.encode(), zlib.crc32(body))
    url = found[b"paypal-cert-url"].decode("latin-1")
    return Signed(url, signature, text, SHA256(), time)


def expected(signature: Signature, name: str) -> tuple[str, ...]:
    """All values that a setting allows. Raises ValueError when there is none."""
    values = tuple(value for key, value in signature.expected if key == name)
    if not values:
        raise ValueError(f"{signature.scheme} is not checked without {name}")
    return values


def _sns_verifier(signature: Signature, keyring: Keyring) -> CertificateVerifier:
    return CertificateVerifier(
        _sns(frozenset(expected(signature, "audience"))),
        _SNS_CERTIFICATE,
        sources(signature, keyring, from_text),
        keyring,
        signature.tolerance,
    )


def _paypal_verifier(signature: Signature, keyring: Keyring) -> CertificateVerifier:
    return CertificateVerifier(
        _paypal(expected(signature, "webhook_id")[0]),
        _PAYPAL_CERTIFICATE,
        sources(signature, keyring, from_text),
        keyring,
        signature.tolerance,
    )


SCHEMES = (
    Scheme(
        name="aws-sns",
        headers=frozenset(_SNS_HEADERS),
        carriers=frozenset(),
        # They say what the body says, or the delivery is refused.
        covered=frozenset(_SNS_HEADERS),
        # All that makes the event what it is; not MessageAttributes and UnsubscribeURL.
        covers_body=True,
        proof="vectors in aws-sdk-ruby gems/aws-sdk-sns/spec/message_verifier_spec.rb",
        verifier=_sns_verifier,
        dated=True,
        needs=("audience",),
        fault=fault_of(from_text),
    ),
    Scheme(
        name="paypal",
        headers=_PAYPAL,
        carriers=frozenset({b"paypal-transmission-sig"}),
        covered=frozenset({b"paypal-transmission-id", b"paypal-transmission-time"}),
        # By its CRC-32, which whoever has one genuine delivery can make others for.
        covers_body=True,
        proof="a vector in PayPal-Java-SDK ValidateCert.java",
        verifier=_paypal_verifier,
        dated=True,
        # It names no limit. A retry may come under its first stamp for three days.
        tolerance=73 * 3600,
        needs=("webhook_id",),
        fault=fault_of(from_text),
    ),
)
