"""Public keys: Discord, SendGrid and the Ed25519 kind of Standard Webhooks."""

from __future__ import annotations

import warnings
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.event import Delivery
from gateway.core.signature import Flaw, Invalid, Signature, Unchecked, Valid
from gateway.providers import schemes
from tests.providers.publishers import (
    NOW,
    Web,
    der,
    ec_key,
    ed_key,
    jwk,
    jwks,
    pem,
    raw,
    signature_of,
)
from tests.providers.signed import BODY, delivery, with_one_byte_changed

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from discord_interactions import verify_key
    from nacl.signing import SigningKey
    from sendgrid import EventWebhook

WRONG, MISSING, EXPIRED = (Invalid(flaw) for flaw in (Flaw.WRONG, Flaw.MISSING, Flaw.EXPIRED))
TIME = str(int(NOW))


@dataclass(frozen=True)
class Kind:
    """How one provider signs."""

    scheme: str
    sign: Callable[[bytes, str, str], Delivery]
    """A body, with the key of this name, at that time."""
    key: Callable[[str], str]
    """That key as the provider shows it."""
    names: tuple[str, ...]


def discord(body: bytes, name: str, time: str) -> Delivery:
    made = ed_key(name).sign(time.encode() + body).hex()
    return delivery({"X-Signature-Ed25519": made, "X-Signature-Timestamp": time}, body)


def sendgrid(body: bytes, name: str, time: str) -> Delivery:
    made = b64encode(ec_key(name).sign(time.encode() + body, ec.ECDSA(hashes.SHA256()))).decode()
    names = KINDS["sendgrid"].names
    return delivery(dict(zip(names, (made, time), strict=True)), body)


def standard(body: bytes, name: str, time: str) -> Delivery:
    made = ed_key(name).sign(b"msg_1." + time.encode() + b"." + body)
    values = ("msg_1", time, "v1a," + b64encode(made).decode())
    return delivery(dict(zip(KINDS["v1a"].names, values, strict=True)), body)


KINDS = {
    "discord": Kind(
        "discord",
        discord,
        lambda name: raw(ed_key(name)).hex(),
        ("X-Signature-Ed25519", "X-Signature-Timestamp"),
    ),
    "sendgrid": Kind(
        "sendgrid",
        sendgrid,
        lambda name: b64encode(der(ec_key(name))).decode(),
        (
            "X-Twilio-Email-Event-Webhook-Signature",
            "X-Twilio-Email-Event-Webhook-Timestamp",
        ),
    ),
    "v1a": Kind(
        "standard-webhooks",
        standard,
        lambda name: "whpk_" + b64encode(raw(ed_key(name))).decode(),
        ("webhook-id", "webhook-timestamp", "webhook-signature"),
    ),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


async def check(signature: Signature, one: Delivery, now: float = NOW) -> object:
    return await schemes.verifier(signature, Web().store()).check(one, now)


@every_kind
@pytest.mark.parametrize("body", [BODY, b"", b"\xff\x00\r\n", b"7" * 100_000])
async def test_what_the_provider_signed_is_valid_whatever_is_in_it(kind: Kind, body: bytes) -> None:
    signature = signature_of(kind.scheme, kind.key("one"))
    assert await check(signature, kind.sign(body, "one", TIME)) == Valid(0)


@every_kind
async def test_each_key_is_known_by_its_place_in_any_order(kind: Kind) -> None:
    one, two = kind.key("one"), kind.key("two")
    sent = kind.sign(BODY, "two", TIME)
    assert await check(signature_of(kind.scheme, one, two), sent) == Valid(1)
    assert await check(signature_of(kind.scheme, two, one), sent) == Valid(0)
    assert await check(signature_of(kind.scheme, one), sent) == WRONG


@every_kind
async def test_keys_of_files_come_after_those_that_are_written(kind: Kind, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(pem(ec_key("file") if kind.scheme == "sendgrid" else ed_key("file")))
    signature = signature_of(kind.scheme, kind.key("one"), keys=(str(file),))
    assert await check(signature, kind.sign(BODY, "file", TIME)) == Valid(1)
    assert await check(signature, kind.sign(BODY, "one", TIME)) == Valid(0)


@every_kind
async def test_one_changed_byte_is_refused(kind: Kind) -> None:
    signature = signature_of(kind.scheme, kind.key("one"))
    sent = kind.sign(BODY, "one", TIME)
    verifier = schemes.verifier(signature, Web().store())
    for where, changed in with_one_byte_changed(sent, kind.names, body=True):
        answer = await verifier.check(changed, NOW)
        assert isinstance(answer, Invalid), where


@every_kind
async def test_no_digit_moves_between_time_and_body(kind: Kind) -> None:
    signature = signature_of(kind.scheme, kind.key("one"), tolerance=None)
    sent = kind.sign(b"1" + BODY, "one", TIME)
    stamp = kind.names[1].encode()

    def moved(time: str, body: bytes) -> Delivery:
        lines = tuple(
            (name, time.encode() if name == stamp else value) for name, value in sent.headers
        )
        return sent._replace(headers=lines, body=body)

    assert await check(signature, moved(TIME, sent.body)) == Valid(0)
    assert await check(signature, moved(TIME + "1", BODY)) in (MISSING, WRONG)
    assert await check(signature, moved(TIME[:-1], TIME[-1:].encode() + sent.body)) == MISSING


@every_kind
@pytest.mark.parametrize(
    ("off", "is_late"), [(-301, True), (-300, False), (300, False), (301, True)]
)
async def test_a_time_stamp_outside_the_tolerance_is_expired(
    kind: Kind, off: int, is_late: bool
) -> None:
    signature = signature_of(kind.scheme, kind.key("one"), tolerance=300)
    sent = kind.sign(BODY, "one", str(int(NOW) + off))
    assert await check(signature, sent) == (EXPIRED if is_late else Valid(0))


@every_kind
async def test_what_is_wrong_is_not_called_expired(kind: Kind) -> None:
    signature = signature_of(kind.scheme, kind.key("one"), tolerance=300)
    assert await check(signature, kind.sign(BODY, "two", "1000000000")) == WRONG


@every_kind
async def test_a_missing_blank_or_doubled_header_is_no_signature(kind: Kind) -> None:
    signature = signature_of(kind.scheme, kind.key("one"))
    sent = kind.sign(BODY, "one", TIME)
    for name in (name.encode() for name in kind.names):
        rest = tuple(line for line in sent.headers if line[0] != name)
        value = dict(sent.headers)[name]
        other = value[:-1] + (b"8" if value.endswith(b"9") else b"9")
        for more in ((), ((name, b""),), ((name, value), (name.upper(), other))):
            assert await check(signature, sent._replace(headers=rest + more)) == MISSING, more
    assert await check(signature, delivery()) == MISSING


@every_kind
@given(noise=st.lists(st.binary(max_size=200), min_size=3, max_size=3), body=st.binary(max_size=50))
async def test_whatever_the_headers_are_a_check_never_raises(
    kind: Kind, noise: list[bytes], body: bytes
) -> None:
    sent = delivery()._replace(
        headers=tuple(zip((name.encode() for name in kind.names), noise, strict=False)), body=body
    )
    assert isinstance(await check(signature_of(kind.scheme, kind.key("one")), sent), Invalid)


@every_kind
@given(noise=st.binary(max_size=120))
async def test_signatures_of_any_length_are_wrong_or_none(kind: Kind, noise: bytes) -> None:
    written = {"discord": noise.hex(), "sendgrid": b64encode(noise).decode()}
    mark = written.get(kind.scheme, "v1a," + b64encode(noise).decode())
    at = kind.names[-1 if kind.scheme == "standard-webhooks" else 0].encode()
    sent = kind.sign(BODY, "one", TIME)
    lines = tuple((name, mark.encode() if name == at else value) for name, value in sent.headers)
    answer = await check(signature_of(kind.scheme, kind.key("one")), sent._replace(headers=lines))
    assert answer in (WRONG, MISSING)


@every_kind
@pytest.mark.parametrize("text", ["", "whpk_", "whpk_!", "00" * 31, "zz" * 32, "secret", "{}", "é"])
def test_what_is_no_key_is_a_fault_that_does_not_quote_it(kind: Kind, text: str) -> None:
    if kind.scheme == "standard-webhooks":
        text = "whpk_" + text.removeprefix("whpk_")  # all else is a shared secret
    why = schemes.scheme(kind.scheme).fault(text)
    assert why is not None
    assert text == "" or text not in why
    assert schemes.scheme(kind.scheme).fault(kind.key("one")) is None


async def test_what_discords_library_accepts_is_what_we_accept() -> None:
    key = SigningKey(b"s" * 32)
    made = key.sign(TIME.encode() + BODY).signature.hex()
    public = key.verify_key.encode().hex()
    assert verify_key(BODY, made, TIME, public)
    sent = delivery({"X-Signature-Ed25519": made, "X-Signature-Timestamp": TIME})
    assert await check(signature_of("discord", public), sent) == Valid(0)


async def test_what_discord_signs_wrongly_on_purpose_is_refused() -> None:
    sent = delivery({"X-Signature-Ed25519": "0" * 128, "X-Signature-Timestamp": TIME})
    assert await check(signature_of("discord", raw(ed_key("one")).hex()), sent) == WRONG


async def test_what_sendgrids_library_accepts_is_what_we_accept() -> None:
    sent = sendgrid(BODY, "one", TIME)
    mark, time = (dict(sent.headers)[name.encode()].decode() for name in KINDS["sendgrid"].names)
    public = KINDS["sendgrid"].key("one")
    assert EventWebhook(public).verify_signature(BODY.decode(), mark, time)
    assert await check(signature_of("sendgrid", public), sent) == Valid(0)


async def test_what_sendgrid_signed_itself_is_valid() -> None:
    # Of sendgrid-python, test/unit/test_eventwebhook.py: key, signature, time and payload.
    body = (
        b'[{"email":"hello@world.com","event":"dropped","reason":"Bounced Address",'
        b'"sg_event_id":"ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA",'
        b'"sg_message_id":"LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C'
        b'-9.0","smtp-id":"<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>",'
        b'"timestamp":1600112492}]\r\n'
    )
    signature = signature_of(
        "sendgrid",
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw"
        "+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==",
    )
    values = (
        "MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtE"
        "ZtM=",
        "1600112502",
    )
    sent = delivery(dict(zip(KINDS["sendgrid"].names, values, strict=True)), body)
    assert await check(signature, sent) == Valid(0)
    assert await check(signature, sent._replace(body=body.strip())) == WRONG


async def test_a_key_set_serves_as_well_as_a_key() -> None:
    web = Web()
    web.documents["https://keys.example.com/a"] = jwks(jwk(ec_key("other")), jwk(ec_key("one")))
    signature = signature_of("sendgrid", keys=("https://keys.example.com/a",))
    verifier = schemes.verifier(signature, web.store())
    assert await verifier.check(sendgrid(BODY, "one", TIME), NOW) == Valid(0)
    assert await verifier.check(sendgrid(BODY, "two", TIME), NOW) == WRONG


async def test_without_the_keys_nobody_knows() -> None:
    signature = signature_of("sendgrid", keys=("https://keys.example.com/a",))
    assert isinstance(await check(signature, sendgrid(BODY, "one", TIME)), Unchecked)


def test_a_key_of_another_kind_is_a_fault() -> None:
    assert "P-256" in (
        schemes.scheme("sendgrid").fault(b64encode(der(ed_key("one"))).decode()) or ""
    )


async def test_a_file_with_a_key_of_another_kind_checks_nothing(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(pem(ed_key("one")))
    sent = sendgrid(BODY, "one", TIME)
    assert await check(signature_of("sendgrid", keys=(str(file),)), sent) == WRONG
