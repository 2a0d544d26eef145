"""Handshakes: which are answered, and what `check` says of them."""

from __future__ import annotations

import pytest

from gateway.config import check
from gateway.core.handshake import Condition, Greeting, Proof
from gateway.core.location import Json, Query
from tests.config.conftest import Mistakes, Read, whole
from tests.config.test_preset_layer import provided

META = "answer_handshakes: true"


def test_a_handshake_by_token_is_answered_with_the_routes_own_token_only(read: Read) -> None:
    by_token, others = read(provided("meta", META, "verify_token: t0")).routes[0].handshakes
    assert by_token.conditions[-1] == Condition(Query("hub.verify_token"), "t0")
    assert by_token.greeting == Greeting(200, "text/plain", text=Query("hub.challenge"))
    assert others.greeting is None
    by_token = read(provided("meta", META)).routes[0].handshakes[0]
    assert by_token.greeting is None
    assert by_token.conditions[-1] == Condition(Query("hub.verify_token"))


@pytest.mark.parametrize("answered", [True, False])
def test_handshakes_are_answered_where_the_route_says_so(read: Read, answered: bool) -> None:
    lines = (f"answer_handshakes: {str(answered).lower()}", "signature: {secrets: s}")
    (known,) = read(provided("zoom", *lines)).routes[0].handshakes
    plain = Json(("payload", "plainToken"))
    greeting = Greeting(
        200,
        "application/json",
        members=(("plainToken", plain), ("encryptedToken", Proof(plain))),
    )
    assert known.greeting == (greeting if answered else None)


def test_a_handshake_is_built_as_written(read: Read) -> None:
    lines = (
        "answer_handshakes: true\n"
        "handshakes:\n"
        "  - match: [json:/type = a b, no json:/id, query:x]\n"
        "    methods: [get, POST]\n"
        "    signed: false\n"
        "    answer: {status: 202, headers: {X-Seen: json:/a}}"
    )
    (known,) = read(whole(route=lines)).routes[0].handshakes
    assert known.methods == {"GET", "POST"}
    assert not known.signed
    assert known.conditions == (
        Condition(Json(("type",)), "a b"),
        Condition(Json(("id",)), None, absent=True),
        Condition(Query("x")),
    )
    assert known.greeting == Greeting(202, None, headers=(("X-Seen", Json(("a",))),))


def test_check_says_of_each_handshake_what_becomes_of_it(read: Read) -> None:
    said = check(read(provided("meta", META, "verify_token: t0"))).routes[0].sender.handshakes
    assert said[0].endswith("query:hub.verify_token = {verify_token}: answered 200")
    assert said[1].endswith(": passed to the consumer")
    said = check(read(provided("meta", META))).routes[0].sender.handshakes
    assert said[0].endswith(": passed to the consumer, because there is no verify_token")
    said = check(read(provided("meta"))).routes[0].sender.handshakes
    assert "answer_handshakes: true would answer it" in said[0]


def test_answers_that_anybody_gets_are_a_warning(read: Read) -> None:
    said = read(provided("discord-events", "answer_handshakes: true")).warnings
    assert any("routes.0.answer_handshakes: anybody gets the answers" in one for one in said)
    said = read(provided("discord-events")).warnings
    assert not any("answer_handshakes" in one for one in said)


def test_handshakes_without_answers_that_are_given_are_a_warning(read: Read) -> None:
    lines = "handshakes: [{match: json:/a, answer: {text: json:/a}}]"
    (said,) = read(whole(route=lines)).warnings
    assert "routes.0.handshakes: their answers are not given" in said
    assert read(whole(route=f"{lines}\nanswer_handshakes: true")).warnings == ()


PROVING = """\
answer_handshakes: true
handshakes:
  - {{match: query:token, signed: {signed}, answer: {{json: {{proof: hmac-sha256(query:token)}}}}}}
signature: {{scheme: {scheme}, secrets: s}}"""


@pytest.mark.parametrize("scheme", ["github", "docusign", "mailgun"])
def test_no_proof_that_anybody_may_ask_for_is_a_signature(
    read: Read, mistakes: Mistakes, scheme: str
) -> None:
    (said,) = mistakes(whole(route=PROVING.format(scheme=scheme, signed="false")))
    assert said == (
        "gateway.yaml:10: routes.0.handshakes.0.signed: false has anybody's text signed: the "
        f"answer is its HMAC, as {scheme} signs; write signed: true, or leave the answer to the "
        "consumer"
    )
    read(whole(route=PROVING.format(scheme=scheme, signed="true")))
    read(whole(route=PROVING.format(scheme="stripe", signed="false")))
