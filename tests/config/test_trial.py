"""What `try` makes of handshakes, batches, operations and signatures. Nothing is sent."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.config import sample, try_sample
from tests.config.conftest import Read, whole
from tests.config.test_batches import without_id
from tests.config.test_preset_layer import provided

NOW = 1_767_225_600
BODY = b'{"id": "evt_1", "account": "acct_9", "type": "charge.succeeded"}'


def stripe(secret: bytes, at: int, body: bytes = BODY) -> bytes:
    mark = hmac.new(secret, f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    lines = ("POST /hooks/billing HTTP/1.1", "Host: h", f"Stripe-Signature: t={at},v1={mark}")
    return "\r\n".join((*lines, "", "")).encode() + body


SECRETS = "signature: {secrets: [whsec_new, whsec_old]}"
FORGED = stripe(b"whsec_other", NOW)

SIGNED = [
    (stripe(b"whsec_new", NOW), "", "keyed", "valid by secret 0 (stripe)"),
    (stripe(b"whsec_old", NOW), "", "keyed", "valid by secret 1 (stripe)"),
    (stripe(b"whsec_old", NOW - 301), "", "keyed", "valid (stripe), but signed more than 5m ago"),
    (FORGED, "", "refused", "wrong: no secret made it (stripe)"),
    (FORGED, "mode: observe", "keyed", "wrong: no secret made it (stripe)"),
    (FORGED.replace(b"v1=", b"v9="), "", "refused", "missing: there is none that can be read"),
    (BODY, "", "keyed", "not checked: a body alone has no headers"),
]


@pytest.mark.parametrize(("raw", "line", "verdict", "signature"), SIGNED)
def test_a_signature_is_checked_with_the_routes_secrets(
    read: Read, raw: bytes, line: str, verdict: str, signature: str
) -> None:
    found = try_sample(read(provided("stripe", SECRETS, line)), "billing", raw, NOW)
    assert found.verdict == verdict
    assert found.usable == (verdict == "keyed")
    assert str(found.signature).startswith(signature)
    assert (found.key is not None) == found.usable


def test_a_bad_signature_claims_nothing_and_says_what_it_gets(read: Read) -> None:
    found = try_sample(read(provided("stripe", SECRETS)), None, FORGED, NOW)
    assert found.why == "signature wrong: 401"
    assert (found.event_id, found.parts) == (None, ())


def test_a_secret_that_is_not_here_is_not_checked_with(read: Read) -> None:
    text = provided("stripe", 'signature: {secrets: "${STRIPE_SECRET}"}')
    found = try_sample(read(text, variables_required=False), None, FORGED, NOW)
    assert found.signature == "not checked: a variable with its secret is not set here"
    assert found.verdict == "keyed"


def test_keys_at_a_url_are_not_fetched(read: Read) -> None:
    lines = 'signature: {scheme: discord, keys: "https://keys.example/jwks"}'
    head = (
        b"POST /hooks/orders HTTP/1.1\r\nX-Signature-Ed25519: %s\r\nX-Signature-Timestamp: %d\r\n"
    )
    raw = head % (b"00" * 64, NOW) + b'\r\n{"event_id": "a"}'
    found = try_sample(read(whole(route=lines)), None, raw, NOW)
    assert found.signature == "not checked: its keys are at a URL, and nothing is fetched here"


async def test_a_public_key_is_tried_inside_of_an_event_loop_too(read: Read) -> None:
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    body = b'{"event_id": "a"}'
    mark = key.sign(str(NOW).encode() + body).hex().encode()
    head = b"POST /hooks/orders HTTP/1.1\r\nX-Signature-Ed25519: %s\r\n" % mark
    raw = head + b"X-Signature-Timestamp: %d\r\n\r\n" % NOW + body
    lines = f'signature: {{scheme: discord, secrets: "{public}"}}'
    found = try_sample(read(whole(route=lines)), None, raw, NOW)
    assert (found.signature, found.verdict) == ("valid (discord)", "keyed")


META = (
    b"GET /hooks/billing?hub.mode=subscribe&hub.verify_token=%s&hub.challenge=42 HTTP/1.1\r\n\r\n"
)
ANSWERED = ("answer_handshakes: true", "verify_token: t0ken")

GREETED = [
    (META % b"t0ken", ANSWERED, "answered, never claimed or forwarded", "answered 200 42"),
    (META % b"other", ANSWERED, "forwarded, never claimed", "GET query:hub.mode = subscribe"),
    (META % b"t0ken", ANSWERED[1:], "forwarded, never claimed", "{verify_token}"),
    (META % b"t0ken", (*ANSWERED, "mode: observe"), "forwarded, never claimed", "{verify_token}"),
]


@pytest.mark.parametrize(("raw", "lines", "why", "handshake"), GREETED)
def test_a_handshake_is_shown_with_what_becomes_of_it(
    read: Read, raw: bytes, lines: tuple[str, ...], why: str, handshake: str
) -> None:
    found = try_sample(read(provided("meta", *lines)), None, raw)
    assert (found.verdict, found.usable, found.key) == ("passed", True, None)
    assert str(found.why) == f"a handshake: {why}"
    assert str(found.handshake).endswith(handshake)
    assert "t0ken" not in sample.as_text(found) + sample.as_json(found)


@pytest.mark.parametrize(("signed", "verdict"), [("true", "refused"), ("false", "passed")])
def test_an_unsigned_handshake_passes_where_it_may(read: Read, signed: str, verdict: str) -> None:
    lines = f"{SECRETS}\nhandshakes: [{{match: json:/id, signed: {signed}}}]"
    found = try_sample(read(provided("stripe", *lines.splitlines())), None, FORGED, NOW)
    assert found.verdict == verdict


BATCH = (
    "batch: {items: json:/events, event_id: json:/id, event_type: json:/type, event_time: json:/at}"
)
ITEMS = json.dumps(
    {"events": [{"id": 1, "type": "a", "at": NOW, "n": 0}, {"id": 2}, {"id": 1}, {"x": 1}]}
).encode()


def test_each_item_of_a_batch_has_its_key(read: Read) -> None:
    found = try_sample(read(without_id(BATCH, "per_attempt: [json:/n, json:/m]")), "orders", ITEMS)
    assert (found.verdict, found.why) == ("keyed", "a batch of 4, mixed ones: filter")
    first, second, repeat, lone = found.items
    assert (first.event_id, first.event_type, first.event_time) == (
        "1",
        "a",
        "2026-01-01T00:00:00+00:00",
    )
    assert first.key == repeat.key != second.key
    assert [one.repeat for one in found.items] == [False, False, True, False]
    assert (lone.key, lone.why) == (None, "json:/id there is no member 'id', but x")
    assert found.left_out == ("json:/n",)
    single = try_sample(read(whole().replace("/event_id", "/id")), "orders", b'{"id": "1"}')
    assert single.key == first.key
    said = sample.as_text(found)
    assert "item 3                   no usable id" in said
    assert "(a repeat in this body)" in said


NOT_BATCHED = [
    (b'{"events": []}', "", "passed", "a batch without items: forwarded, never claimed"),
    (b'{"events": [{}]}', "", "unkeyed", "no usable id at any item, json:/id: forwarded"),
    (
        b'{"events": [{}]}',
        "missing_id: refuse",
        "refused",
        "no usable id at any item, json:/id: 400",
    ),
    (b'{"id": 1}', "", "unkeyed", "no usable id at the items of a batch"),
    (b'{"id": 1}', "event_id: json:/id", "keyed", "None"),
    (b'{"id": 1, "events": []}', "event_id: json:/id", "passed", "a batch without items"),
]


@pytest.mark.parametrize(("body", "line", "verdict", "why"), NOT_BATCHED)
def test_a_body_without_items_says_what_becomes_of_it(
    read: Read, body: bytes, line: str, verdict: str, why: str
) -> None:
    found = try_sample(read(without_id(BATCH, line)), "orders", body)
    assert found.verdict == verdict
    assert str(found.why).startswith(why)


def test_a_long_batch_is_counted_and_not_printed(read: Read) -> None:
    body = json.dumps({"events": [{"id": number} for number in range(100)]}).encode()
    found = try_sample(read(without_id(BATCH)), "orders", body)
    assert "and 80 more, 100 in all" in sample.as_text(found)
    assert len(found.items) == 100


def test_an_operation_is_shown_beside_the_id(read: Read) -> None:
    text = without_id("event_id: json:/id", "operation_key: [literal:ticket, json:/order]")
    loaded = read(text)
    one = try_sample(loaded, "orders", b'{"id": "a", "order": 7}')
    other = try_sample(loaded, "orders", b'{"id": "b", "order": "7"}')
    assert one.key == other.key
    assert (one.event_id, other.event_id) == ("a", "b")
    assert [part.value for part in one.operation] == ["ticket", "7"]
    assert "operation json:/order" in sample.as_text(one)


def test_what_is_not_compared_and_what_a_duplicate_is_told_are_shown(read: Read) -> None:
    lines = (
        "per_attempt: [json:/attempt, json:/other]",
        "duplicate_reply: {status: 200, content_type: text/plain, body: success}",
    )
    found = try_sample(read(whole(route="\n".join(lines))), "orders", b'{"event_id":1,"attempt":2}')
    assert found.left_out == ("json:/attempt",)
    assert found.duplicate == "200 text/plain success"


def test_a_route_without_events_passes_and_says_why(read: Read) -> None:
    found = try_sample(read(provided("mollie")), "billing", b"id=tr_1")
    assert found.verdict == "passed"
    assert "a classic Mollie webhook says only which payment changed" in str(found.why)


def test_an_id_that_the_preset_knows_to_be_wrong_is_noted(read: Read) -> None:
    found = try_sample(
        read(provided("stripe", "event_id: header:Stripe-Signature")), None, FORGED, NOW
    )
    assert any("is no event id of stripe's: its t= differs" in note for note in found.notes)


@pytest.mark.parametrize("line", ['scope: "${SHOP}"', 'operation_key: "json:/${SHOP}"'])
def test_a_key_that_an_absent_variable_would_change_is_noted(read: Read, line: str) -> None:
    text, body = whole(route=line), b'{"event_id": "evt_1"}'
    found = try_sample(read(text, variables_required=False), "orders", body)
    said = f"{line.partition(':')[0]} has a variable that is not set here: the key is another one"
    assert said in found.notes
    assert not any("variable" in note for note in try_sample(read(whole()), "orders", body).notes)
