"""Handshakes: told from events by what they carry, and answered with what they bring."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import handshake
from gateway.core.event import Delivery, RawHeaders
from gateway.core.handshake import Condition, Greeting, Handshake, Proof, Said
from gateway.core.keying import Reading
from gateway.core.location import FirstOf, Form, Header, Json, Literal, Location, Query

TYPE = Json(("type",))
CHALLENGE = Json(("challenge",))


def reading(
    body: bytes = b"", *, method: str = "POST", target: str = "/h", headers: RawHeaders = ()
) -> Reading:
    return Reading(Delivery(method, target, headers, body, "192.0.2.7", "http"))


def kind(*conditions: Condition, methods: frozenset[str] = frozenset()) -> Handshake:
    return Handshake(methods, conditions, signed=False, greeting=None)


SLACK = b'{"type":"url_verification","challenge":"3eZbrw"}'


@pytest.mark.parametrize(
    ("condition", "came", "holds"),
    [
        (Condition(TYPE, "url_verification"), reading(SLACK), True),
        (Condition(TYPE, "url_verification"), reading(b'{"type":"url_verification "}'), False),
        (Condition(TYPE, "url_verification"), reading(b'{"type":null}'), False),
        (Condition(TYPE, "url_verification"), reading(b"not JSON"), False),
        (Condition(TYPE, "1"), reading(b'{"type":1}'), True),  # as a delivery's id would be read
        (Condition(TYPE), reading(SLACK), True),
        (Condition(TYPE), reading(b"{}"), False),
        (Condition(TYPE, absent=True), reading(b"{}"), True),
        (Condition(TYPE, absent=True), reading(SLACK), False),
        (Condition(Header("X-Kind"), "ping"), reading(headers=((b"x-kind", b"ping"),)), True),
        (Condition(Query("mode"), "subscribe"), reading(target="/h?mode=subscribe"), True),
        (Condition(Query("mode"), "subscribe"), reading(target="/h?mode=subscribe&mode=x"), False),
        (Condition(Form("ssl_check"), "1"), reading(b"ssl_check=1&token=x"), True),
        (Condition(TYPE, "\ud800"), reading(b'{"type":"\\ud800"}'), True),
    ],
)
def test_a_condition_holds_where_the_value_is_exactly_what_it_says(
    condition: Condition, came: Reading, holds: bool
) -> None:
    assert condition.holds(came) is holds


def test_all_conditions_hold_and_the_method_is_one_of_its_own() -> None:
    both = kind(Condition(TYPE), Condition(CHALLENGE), methods=frozenset({"POST"}))
    assert both.matches(reading(SLACK))
    assert not both.matches(reading(SLACK, method="PUT"))
    assert not both.matches(reading(b'{"type":"x"}'))
    assert kind(Condition(TYPE)).matches(reading(SLACK, method="PUT"))


def test_the_first_kind_that_matches_is_the_one() -> None:
    general, special = kind(Condition(TYPE)), kind(Condition(CHALLENGE))
    assert handshake.find((special, general), reading(SLACK)) is special
    assert handshake.find((general, special), reading(SLACK)) is general
    assert handshake.find((general,), reading(b"{}")) is None
    assert handshake.find((), reading(SLACK)) is None


PLAIN = (b"Content-Type", b"text/plain")


@pytest.mark.parametrize(
    ("greeting", "came", "said"),
    [
        (
            Greeting(200, "text/plain", text=CHALLENGE),
            reading(SLACK),
            Said(200, (PLAIN,), b"3eZbrw"),
        ),
        (
            Greeting(200, None, headers=(("WebHook-Allowed-Origin", Header("Origin")),)),
            reading(headers=((b"Origin", b"events.example"),)),
            Said(200, ((b"WebHook-Allowed-Origin", b"events.example"),), b""),
        ),
        (
            Greeting(200, "application/json", members=(("verification", Header("X-C")),)),
            reading(headers=((b"X-C", b'a"b'),)),
            Said(200, ((b"Content-Type", b"application/json"),), b'{"verification": "a\\"b"}'),
        ),
        (Greeting(204, None), reading(), Said(204, (), b"")),
        (
            Greeting(200, "text/plain", text=Literal("yes")),
            reading(),
            Said(200, (PLAIN,), b"yes"),
        ),
        (
            Greeting(200, "text/plain", text=FirstOf((CHALLENGE, Literal("none")))),
            reading(b"{}"),
            Said(200, (PLAIN,), b"none"),
        ),
    ],
)
def test_a_greeting_says_what_the_request_brings(
    greeting: Greeting, came: Reading, said: Said
) -> None:
    assert handshake.say(greeting, came, None) == said


@pytest.mark.parametrize(
    "greeting",
    [
        Greeting(200, "text/plain", text=CHALLENGE),
        Greeting(200, None, headers=(("X-A", CHALLENGE),)),
        Greeting(200, "application/json", members=(("a", TYPE), ("b", CHALLENGE))),
        Greeting(200, "application/json", members=(("b", Proof(CHALLENGE)),)),
    ],
)
def test_what_the_request_lacks_cannot_be_said(greeting: Greeting) -> None:
    assert handshake.say(greeting, reading(b'{"type":"x"}'), "secret") is None


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\x00b", "é", "\u2028"])
def test_no_stranger_writes_a_header_line(value: str) -> None:
    greeting = Greeting(200, None, headers=(("X-A", CHALLENGE),))
    body = json.dumps({"challenge": value}).encode()
    assert handshake.say(greeting, reading(body), None) is None


PROVING = Greeting(
    200,
    "application/json",
    members=(("plainToken", Json(("token",))), ("encryptedToken", Proof(Json(("token",))))),
)


def proved(token: str, secret: str | None = "secret") -> Said | None:
    return handshake.say(PROVING, reading(json.dumps({"token": token}).encode()), secret)


def test_a_proof_is_the_hex_mac_of_the_token() -> None:
    said = proved("qgg8vlvZRS6UYooatFL8Aw")
    assert said is not None
    made = hmac.new(b"secret", b"qgg8vlvZRS6UYooatFL8Aw", hashlib.sha256).hexdigest()
    assert json.loads(said.body)["encryptedToken"] == made


def test_without_a_secret_there_is_no_proof() -> None:
    assert proved("abc", secret=None) is None


@pytest.mark.parametrize(
    "text",
    [
        'v0:1724598000:{"event":"meeting.started"}',  # what a signature is made of
        "1724598000.{}",
        '{"id":"evt_1"}',
        "a=1",
        "a b",
        "x" * 129,
        "",
        "a\n",
    ],
)
def test_nobody_gets_a_delivery_signed_by_asking_for_a_proof(text: str) -> None:
    assert proved(text) is None


@given(st.text(), st.text(min_size=1))
def test_whatever_is_asked_gets_an_answer_or_none(text: str, secret: str) -> None:
    locations: list[Location] = [Json(("token",)), Query("token"), Header("token")]
    body = json.dumps({"token": text}).encode()
    for location in locations:
        for greeting in (PROVING, Greeting(200, "text/plain", text=location)):
            said = handshake.say(greeting, reading(body), secret.encode("utf-8", "ignore").decode())
            assert said is None or said.status == 200


SPELT_TWICE = ((b"X-Topic", b"a"), (b"X-Topic", b"b"))
SPELT_OTHERWISE = ((b"X_Topic", b"a"),)


@pytest.mark.parametrize("lines", [((b"X-Topic", b"a"),), SPELT_TWICE, SPELT_OTHERWISE])
def test_a_line_that_a_consumer_may_read_is_not_absent(lines: RawHeaders) -> None:
    lacking = Condition(Header("X-Topic"), absent=True)
    assert lacking.holds(reading())
    assert not lacking.holds(reading(headers=lines))


FORM = (b"Content-Type", b"application/x-www-form-urlencoded; charset=utf-8")


@pytest.mark.parametrize(
    ("body", "lines", "is_form"),
    [
        (b"command=/go&a=1", (), True),
        (b"command=/go&a=1", (FORM,), True),
        (b'{"url":"https://x.example/?a=1&command=go"}', (), False),
        (b' \n["&command=go"]', (FORM,), False),
        (b"text&command=go", ((b"Content-Type", b"text/plain"),), False),
        (b"command=go&" + b"%41" * 400_000, (FORM,), False),
    ],
)
def test_what_a_body_quotes_makes_no_form_of_it(
    body: bytes, lines: RawHeaders, is_form: bool
) -> None:
    assert Condition(Form("command")).holds(reading(body, headers=lines)) is is_form
