"""What no report, mistake or log line shows: secrets, and what variables and files gave."""

from __future__ import annotations

import pytest

from gateway.config import check, report, sample, try_sample
from gateway.config.hiding import hide, hide_in
from tests.config.conftest import Mistakes, Read, whole

SECRETS = {
    "PATH_PART": "path-s3",
    "SCOPE": "scope-s3",
    "TOKEN": "token-s3",
    "ANSWER": 'ans"wer-s3',
    "BODY": "body\ns3",
    "PROBE": "probe-s3",
    "AUDIENCE": "aud:s3",
    "PUBLIC": "public-s3",
}
ROUTE = """\
scope: ["literal:x-${SCOPE}", json:/account]
verify_token: verify-s3
answer_handshakes: true
handshakes:
  - match: ["json:/token = ${TOKEN}", "header:X-Secret = written-s3"]
    signed: false
    answer: {text: "literal:${ANSWER}"}
duplicate_reply: {body: "${BODY}"}
on_doubt: probe
probe: {url: "http://127.0.0.1:3000/known/${PROBE}?id={event_id}"}
late_delivery: it looks at no time
signature: {scheme: aws-sns, audience: "${AUDIENCE}", public_url: "https://h.example/${PUBLIC}"}
"""
TEXT = whole(route=ROUTE).replace("/hooks/orders", "/hooks/${PATH_PART}")
GREETS = b'POST /hooks/path-s3 HTTP/1.1\r\nX-Secret: written-s3\r\n\r\n{"token": "token-s3"}'
EVENT = b'{"event_id": "evt_1", "account": "acct_1"}'


def test_check_shows_what_variables_gave_as_it_was_written(read: Read) -> None:
    findings = check(read(TEXT, env=SECRETS))
    said = report.as_text(findings)
    assert "s3" not in said + report.as_json(findings)
    assert "any host /hooks/${PATH_PART} -> http://127.0.0.1:3000" in said
    assert "json:/token = ${TOKEN} and header:X-Secret = …: answered 200" in said
    for name in ("x-${SCOPE}", "${BODY}", "/known/${PROBE}?id=", "h.example/${PUBLIC}"):
        assert name in said


@pytest.mark.parametrize(
    ("raw", "shows"),
    [(GREETS, "answered 200 ${ANSWER}"), (EVENT, "scope literal:x-${SCOPE} x-${SCOPE}")],
)
def test_a_trial_shows_no_secret_that_the_route_compares_or_answers_with(
    read: Read, raw: bytes, shows: str
) -> None:
    found = try_sample(read(TEXT, env=SECRETS), "orders", raw)
    said = sample.as_text(found) + sample.as_json(found)
    assert shows in said
    assert "s3" not in said


def test_what_the_environment_says_of_a_handshake_is_not_shown(read: Read) -> None:
    env = {"DEDUP__ROUTES__0__HANDSHAKES": "[{match: ['header:X-Gate = gate-s3']}]"}
    said = report.as_text(check(read(whole(), env=env)))
    assert "header:X-Gate = …" in said
    plain = whole(route="handshakes: [{match: ['header:X-Kind = hello']}]")
    assert "header:X-Kind = hello" in report.as_text(check(read(plain)))


def test_a_mistake_names_the_variable_and_not_what_is_in_it(mistakes: Mistakes) -> None:
    text = whole(route='mode: "${A}"\nretention: "${A}"\nscope: "json:${A}"')
    said = mistakes(text, env={"A": "hook-s3"})
    assert len(said) == 3
    assert "s3" not in "".join(said)
    assert "'${A}' is not a duration" in said[1]


def test_a_notice_names_the_variable_and_not_what_is_in_it(read: Read) -> None:
    text = whole(route='provider: stripe\nevent_id: "${A}"').replace("event_id: json:/event_id", "")
    said = "".join(read(text, env={"A": "header:Stripe-Signature"}).warnings)
    assert "${A} is no event id of stripe's" in said
    assert "header:Stripe" not in said


def test_of_an_upstreams_url_the_host_is_shown_and_nothing_behind_it(read: Read) -> None:
    text = whole().replace("http://127.0.0.1:3000", "${APP}")
    said = report.as_text(check(read(text, env={"APP": "http://app.internal:81/T00/hook-s3"})))
    assert "-> http://app.internal:81/…" in said


def test_what_is_used_as_it_is_stays_readable(read: Read) -> None:
    text = whole(route='retention: "${KEPT}"\nmode: "${MODE}"\nscope: "${SCOPE}"')
    env = {"KEPT": "4500d", "MODE": "observe", "SCOPE": "orders"}
    said = report.as_text(check(read(text, env=env)))
    assert "retention   4500d" in said
    assert "mode        observe" in said
    assert "route orders:" in said


def test_a_default_that_stands_in_the_file_is_no_secret(read: Read) -> None:
    said = report.as_text(check(read(whole(route='scope: "${SHOP:-north}"'))))
    assert "literal:north" in said


HIDDEN = [
    ("a secret in a secretary's secret.", "a … in a secretary's …."),
    ("it's", "it's"),
    ("\"secret\" 'secret'", "\"…\" '…'"),
]


@pytest.mark.parametrize(("text", "shown"), HIDDEN)
def test_a_text_is_hidden_where_it_is_a_word_of_its_own(text: str, shown: str) -> None:
    assert hide(text, {"secret": "…"}) == shown


def test_a_text_is_hidden_however_it_is_quoted() -> None:
    assert hide(r"""a\"b'c and a"b\'c""", {"a\"b'c": "…"}) == "… and …"
    assert hide_in({"said": ["a\nb", r"a\nb", 7]}, {"a\nb": "…"}) == {"said": ["…", "…", 7]}
