"""Signatures, late deliveries and handshakes: what is refused and said, and what is built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.config import check, load, report
from gateway.config.local_keys import LONGEST_DOCUMENT
from gateway.providers import schemes
from tests.config.conftest import Mistakes, Read, whole, without_place
from tests.config.test_preset_layer import provided

# Those that are written in a way of their own.
SECRETS = {
    "basic-auth": "user:password",
    "standard-webhooks": "whsec_AAAA",
}
STRIPE = "signature: {secrets: whsec_a}"

REFUSED = [
    ("stripe", "signature: {}", "routes.0.signature.secrets: missing: stripe is"),
    ("stripe", 'signature: {secrets: ""}', "routes.0.signature.secrets: is empty"),
    ("stripe", "signature: {secrets: [a, a]}", "routes.0.signature.secrets.1: is there twice"),
    ("stripe", "signature: {secrets: a, tolerance: 0s}", "routes.0.signature.tolerance: is zero"),
    ("stripe", "signature: {secrets: a, tolerance: 90d}",
     "routes.0.signature.tolerance: 90d is longer than the retention of 41d6h"),
    ("github", "signature: {secrets: a, tolerance: 5m}",
     "routes.0.signature.tolerance: github signs no time stamp, so there is nothing to tolerate"),
    ("stripe", "signature: {secrets: a, scheme: strip}",
     "routes.0.signature.scheme: 'strip' is no scheme that is known; did you mean stripe"),
    ("svix", "signature: {secrets: whsec_!!!}", "routes.0.signature.secrets: it is not base64"),
    ("chargebee", "signature: {secrets: token}",
     "routes.0.signature.secrets: it is not USER:PASSWORD"),
    ("gcp-pubsub", "signature: {}", "routes.0.signature.audience: missing: gcp-oidc"),
    ("paypal", "signature: {}", "routes.0.signature.webhook_id: missing: paypal"),
    ("sendgrid", "signature: {keys: absent.pem}", "routes.0.signature.keys: names no file in "),
    ("gcp-pubsub", 'signature: {audience: a, email: b, keys: "http://keys.example/jwks"}',
     "routes.0.signature.keys: would fetch the provider's keys unprotected"),
    ("gcp-pubsub", 'signature: {audience: a, email: b, keys: "https://[hunter"}',
     "routes.0.signature.keys: is no URL; write https://HOST/PATH"),
    ("gcp-pubsub", 'signature: {audience: a, email: b, keys: "https://h:99999/jwks"}',
     "routes.0.signature.keys: is no URL"),
    ("stripe", "resign: true", "routes.0.resign: has no secret to sign with"),
    ("gcp-pubsub", "signature: {audience: a, email: b}\nresign: true",
     "routes.0.resign: cannot be: only the provider can sign in the scheme gcp-oidc"),
    ("stripe", "mode: inbox", "routes.0.mode: an inbox delivers when it can, and the signature's "
     "time stamp (stripe) is out of tolerance after 5m; write resign: true, with "
     "signature.secrets, or late_delivery: REASON if the consumer does not mind"),
    ("stripe", "mode: inbox\nsignature: {secrets: a, tolerance: 1h}",
     "routes.0.mode: an inbox delivers when it can, and the signature's time stamp (stripe) is out "
     "of tolerance after 1h"),
    ("stripe", "acknowledge_after: 6s", "routes.0.acknowledge_after: what was acknowledged is"),
    ("stripe", "on_doubt: hold", "routes.0.on_doubt: what is held is sent when a person says so"),
    ("stripe", 'on_doubt: probe\nprobe: {url: "http://h/{event_id}"}', "routes.0.on_doubt: what"),
    ("stripe", "on_stale: hold", "routes.0.on_stale: what is held is sent when a person says so"),
    ("slack", "handshakes: [{match: []}]", "routes.0.handshakes.0.match: is an empty list"),
    ("slack", "handshakes: [{match: [json:/a], answer: {text: json:/a, json: {a: json:/a}}}]",
     "routes.0.handshakes.0.answer: has both text and json"),
    ("slack", "handshakes: [{match: ['json:/a = ']}]",
     "routes.0.handshakes.0.match.0: 'json:/a =' compares with nothing"),
    ("stripe", 'signature: {secrets: a, keys: "https://h/jwks"}',
     "routes.0.signature.keys: stripe is checked with shared secrets, not with public keys"),
    ("slack", "handshakes: [{match: [a]}]", "routes.0.handshakes.0.match.0: 'a' does not say"),
    ("slack", "handshakes: [{match: json:/a, answer: {headers: {Connection: json:/a}}}]",
     "routes.0.handshakes.0.answer.headers"),
    ("slack", "handshakes: [{match: json:/a, answer: {jsn: {a: json:/a}}}]",
     "routes.0.handshakes.0.answer.jsn: unknown setting; did you mean json?"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "lines", "message"), REFUSED)
def test_what_cannot_work_is_refused(
    mistakes: Mistakes, name: str, lines: str, message: str
) -> None:
    said = without_place(mistakes(provided(name, *lines.splitlines())))
    assert any(one.startswith(message) for one in said), said


FINE = [
    ("stripe", "mode: inbox\nlate_delivery: the app checks no time"),
    ("stripe", f"mode: inbox\n{STRIPE}\nresign: true"),
    ("stripe", "mode: observe\nacknowledge_after: 6s"),
    ("stripe", STRIPE),
    ("github", "mode: inbox"),
    ("mollie", "on_doubt: hold"),
    ("gcp-pubsub", "signature: {audience: a, email: b}"),
]


@pytest.mark.parametrize(("name", "lines"), FINE)
def test_what_can_work_is_taken(read: Read, name: str, lines: str) -> None:
    read(provided(name, *lines.splitlines()))


SAID = [
    ("square", "signature: {secrets: a}", "routes.0.signature.public_url: square signs the URL"),
    ("github", "late_delivery: the app checks no time", "routes.0.late_delivery: is not needed"),
    ("stripe", "verify_token: a", "routes.0.verify_token: no handshake of this route compares"),
    ("stripe", "answer_handshakes: true", "routes.0.answer_handshakes: the answer to no handshake"),
    ("meta", "answer_handshakes: true", "routes.0.answer_handshakes: a handshake by token passes"),
    ("zoom", "answer_handshakes: true", "routes.0.answer_handshakes: a handshake that asks for"),
    ("github", "on_doubt: retry", "routes.0.promise.retry_horizon: the provider never retries"),
]


@pytest.mark.parametrize(("name", "lines", "message"), SAID)
def test_what_is_allowed_and_hardly_meant_is_a_warning(
    read: Read, name: str, lines: str, message: str
) -> None:
    said = read(provided(name, *lines.splitlines())).warnings
    assert any(message in one for one in said), said


QUIET = [
    ("square", 'signature: {secrets: a, public_url: "https://h"}', "public_url"),
    ("github", "on_store_down: forward", "never retries"),
    ("github", "mode: observe", "never retries"),
    ("gitlab", "pass_through: nobody minds", "never retries"),
]


@pytest.mark.parametrize(("name", "lines", "words"), QUIET)
def test_what_is_meant_is_no_warning(read: Read, name: str, lines: str, words: str) -> None:
    assert not any(words in one for one in read(provided(name, lines)).warnings)


@pytest.mark.parametrize(("mode", "warned"), [("forward", True), ("observe", False)])
def test_a_check_that_nothing_showed_right_is_a_warning_where_it_refuses(
    read: Read, mode: str, warned: bool
) -> None:
    for name in (one for one in schemes.names() if schemes.scheme(one).signs):
        lines = f'mode: {mode}\nsignature: {{scheme: {name}, secrets: "{SECRETS.get(name, "a")}"}}'
        said = any(
            f"the check of {name} is unverified" in one for one in read(whole(route=lines)).warnings
        )
        assert said == (warned and schemes.scheme(name).proof is None)


def test_a_signature_without_a_scheme_says_where_one_comes_from(mistakes: Mistakes) -> None:
    (said,) = mistakes(whole(route="signature: {secrets: a}"))
    assert said == (
        "gateway.yaml:8: routes.0.signature.scheme: missing; write scheme: NAME, or the route's "
        "provider:"
    )


def test_a_signature_is_what_was_written_with_the_schemes_own_defaults(read: Read) -> None:
    lines = 'signature: {scheme: square, secrets: [a, b], public_url: "https://h:8443/x"}'
    signed = read(whole(route=lines)).routes[0].signature
    assert signed is not None
    assert (signed.scheme, signed.secrets, signed.public_url) == (
        "square",
        ("a", "b"),
        "https://h:8443/x",
    )
    assert (signed.tolerance, signed.resign, signed.expected) == (None, False, ())
    assert signed.headers == {b"x-square-hmacsha256-signature"}
    lines = "signature: {scheme: slack, secrets: a, tolerance: 1m}\nresign: true"
    signed = read(whole(route=lines)).routes[0].signature
    assert signed is not None
    assert (signed.tolerance, signed.resign) == (60.0, True)


def test_a_variable_that_is_absent_is_no_wrong_secret(read: Read) -> None:
    lines = 'signature: {scheme: svix, secrets: ["${FIRST}", "${SECOND}"]}'.replace(
        "svix", "standard-webhooks"
    )
    loaded = read(whole(route=lines), variables_required=False)
    assert loaded.unknown_secrets == {"orders"}
    assert read(whole()).unknown_secrets == frozenset()


def _key(folder: Path, name: str) -> Path:
    public = Ed25519PrivateKey.generate().public_key()
    file = folder / name
    file.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return file


def test_a_key_file_starts_from_the_folder_and_is_watched(read: Read, tmp_path: Path) -> None:
    file = _key(tmp_path, "partner.pem")
    loaded = read(whole(route="signature: {scheme: discord, keys: partner.pem}"))
    signed = loaded.routes[0].signature
    assert signed is not None
    assert signed.keys == (str(file),)
    assert file in loaded.files
    before = loaded.digest
    _key(tmp_path, "partner.pem")
    assert load(tmp_path / "gateway.yaml", env={}).digest != before


def test_a_key_file_that_would_not_serve_is_found_by_check(
    mistakes: Mistakes, tmp_path: Path
) -> None:
    with _key(tmp_path, "partner.pem").open("ab") as file:
        file.write(b"#" * LONGEST_DOCUMENT)
    (said,) = mistakes(whole(route="signature: {scheme: discord, keys: partner.pem}"))
    assert f"partner.pem is longer than {LONGEST_DOCUMENT} bytes" in said


def test_a_file_without_a_key_is_refused(mistakes: Mistakes, tmp_path: Path) -> None:
    (tmp_path / "partner.pem").write_text("nothing")
    (said,) = mistakes(whole(route="signature: {scheme: discord, keys: partner.pem}"))
    assert said.startswith("gateway.yaml:8: routes.0.signature.keys: ")
    assert "write the provider's public key as PEM or JWKS" in said


def test_no_secret_is_ever_shown(read: Read, mistakes: Mistakes) -> None:
    lines = ("verify_token: hunter2", "answer_handshakes: true", "signature: {secrets: hunter3}")
    findings = check(read(provided("meta", *lines)))
    assert "hunter" not in report.as_text(findings) + report.as_json(findings)
    for wrong in ("{secrets: {hunter4: b}}", "hunter4", "{secrets: [[hunter4]]}"):
        assert not any("hunter" in one for one in mistakes(provided("meta", f"signature: {wrong}")))
    for name in ("stripe", "svix", "plaid", "discord-events"):  # the secret in the wrong place
        for keys in ("hunter6", "[a, hunter6]", '"-----BEGIN PUBLIC KEY----- hunter6"'):
            said = mistakes(provided(name, f"signature: {{keys: {keys}}}"))
            assert any("routes.0.signature.keys" in one for one in said)
            assert not any("hunter" in one for one in said)
    twice = mistakes(provided("adyen", "signature: {secrets: [hunter5, hunter5]}"))
    assert not any("hunter" in one for one in twice)


def test_check_as_data_says_what_is_checked_and_what_is_unproven(read: Read) -> None:
    found = json.loads(report.as_json(check(read(provided("stripe", STRIPE)))))
    sender = found["routes"][0]["sender"]
    assert sender["signature"] == "stripe, 1 secret, time stamp within 5m"
    assert "stripe" in sender["verified_by"]
    unproven = {one["setting"]: one["confidence"] for one in sender["unproven"]}
    assert unproven["promise.timeout"] == "sources disagree"
    assert unproven["per_attempt"] == "inferred"
    assert not {"event_id", "event_time"} & set(unproven)
    assert "https://docs.stripe.com/" in sender["sources"]["event_id"]
    assert found["routes"][0]["origins"]["signature.secrets"] == "gateway.yaml line 7"
    assert found["routes"][0]["origins"]["event_id"] == "preset stripe (verified)"


UNSIGNED = [
    ("github", "signature: {secrets: a}", "X-GitHub-Hook-ID, X-GitHub-Delivery"),
    ("github", "signature: {secrets: a}\nscope: literal:a\nevent_id: header:X-B", "X-B"),
    ("github", "signature: {secrets: a}\nscope: literal:a\noperation_key: header:X-B", "X-B"),
    ("github", "signature: {secrets: a}\nscope: literal:a\nevent_id: json:/a", None),
    ("github", "", None),
    ("github", "signature: {secrets: a}\npass_through: nobody minds", None),
    ("svix", "signature: {secrets: whsec_AAAA}", None),
    ("twitch", "signature: {secrets: a}", None),
    ("aws-sns", "signature: {audience: a}", None),
    ("contentful", 'signature: {secrets: a, public_url: "https://h"}', None),
    ("github", "signature: {secrets: a}\nscope: literal:a\n"
     "batch: {items: json:/a, event_id: [header:X-B, json:/id]}", "X-B"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "lines", "headers"), UNSIGNED)
def test_check_says_which_headers_of_the_key_a_recorder_can_replace(
    read: Read, name: str, lines: str, headers: str | None
) -> None:
    findings = check(read(provided(name, *lines.splitlines())))
    said = headers and f"{headers}: whoever recorded one delivery can send it as another event"
    assert findings.routes[0].sender.unsigned == said
    assert ("not signed" in report.as_text(findings)) == (said is not None)


def test_check_says_that_the_consumer_judges_where_nothing_is_checked(read: Read) -> None:
    said = " ".join(report.as_text(check(read(provided("stripe")))).split())
    assert "not checked here: the consumer judges (the provider signs: stripe)" in said
    said = " ".join(report.as_text(check(read(whole()))).split())
    assert "signature not checked here: the consumer judges duplicates" in said


@pytest.mark.parametrize("name", ["docusign", "hubspot", "meta", "mollie", "stripe", "twilio"])
def test_what_check_prints_of_a_preset_fits_a_terminal(read: Read, name: str) -> None:
    text = provided(name).replace("{embedded: ./data}", '{dsn: "postgresql://h/d"}')
    lines = report.as_text(check(read(text))).splitlines()
    assert max(len(line) for line in lines if "://" not in line) <= 80


def test_a_scheme_says_what_showed_it_right_or_that_nothing_did(read: Read) -> None:
    for name in (one for one in schemes.names() if schemes.scheme(one).signs):
        lines = f'signature: {{scheme: {name}, secrets: "{SECRETS.get(name, "a")}"}}'
        said = " ".join(report.as_text(check(read(whole(route=lines)))).split())
        proof = schemes.scheme(name).proof
        assert ("; unverified" in said) == (proof is None)
        assert proof is None or f"shown right by {' '.join(proof.split())}" in said
