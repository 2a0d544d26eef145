"""What is refused and said of a route for what is known of its provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import check, quick
from gateway.providers import presets
from tests.config.conftest import Mistakes, Read, without_place
from tests.config.test_preset_layer import provided

SECRET = "signature: {secrets: whsec_a}"


@pytest.mark.parametrize("name", ["azure-event-grid", "sendgrid", "gcp-pubsub"])
def test_late_deliveries_need_no_reason_where_nothing_may_be_signed(read: Read, name: str) -> None:
    for lines in (["mode: inbox"], ["on_doubt: hold"]):
        said = read(provided(name, *lines)).warnings
        assert any("routes.0.signature: is not there" in one for one in said)
    told = read(provided(name, "mode: inbox", "late_delivery: it signs nothing")).warnings
    assert not any("late_delivery" in one or "is not there" in one for one in told)
    assert not any("is not there" in one for one in read(provided(name)).warnings)


def test_late_deliveries_need_a_reason_where_what_ages_is_checked(mistakes: Mistakes) -> None:
    lines = ("mode: inbox", "signature: {audience: a, email: b@example.com}")
    (said,) = without_place(mistakes(provided("gcp-pubsub", *lines)))
    assert said.startswith("routes.0.mode: an inbox delivers when it can")


@pytest.mark.parametrize("name", ["mollie", "plaid", "discord-interactions"])
def test_an_operation_key_where_nothing_has_an_id_is_told_to_bring_one(
    read: Read, mistakes: Mistakes, name: str
) -> None:
    (said,) = without_place(mistakes(provided(name, "operation_key: json:/order")))
    assert said.startswith(f"routes.0.operation_key: is for events, and the preset {name} knows")
    assert "; write event_id: json:/id, or" in said
    read(provided(name, "operation_key: json:/order", "event_id: json:/id"))


PATIENCE = [
    ("slack", "", "routes.0.promise.timeout: 3s is less than most consumers take now and then"),
    (
        "slack",
        "",
        "write acknowledge_after: 1s500ms in mode: forward, or mode: inbox, with resign:",
    ),
    ("discord-events", "", "or mode: inbox, with late_delivery: REASON"),
    ("okta", "", "or mode: inbox"),
    ("stripe", "", "acknowledge_after: 8s in mode: forward answers in time, with resign: true and"),
    ("stripe", "late_delivery: it looks at no time", "in mode: forward answers in time"),
]


@pytest.mark.parametrize(("name", "line", "says"), PATIENCE)
def test_what_answers_an_impatient_provider_in_time_is_said_with_all_that_it_takes(
    read: Read, name: str, line: str, says: str
) -> None:
    (said,) = (one for one in read(provided(name, line)).warnings if says in one)
    assert ("with" in said.rpartition("in mode: forward")[2]) is (name != "okta" and not line)


def test_what_is_said_of_an_impatient_provider_is_heeded_by_what_it_says(read: Read) -> None:
    for lines in (["acknowledge_after: 1500ms"], ["mode: inbox"]):
        told = read(provided("slack", *lines, "resign: true", SECRET)).warnings
        assert not any("3s" in one for one in told)


PEM = "-----BEGIN PUBLIC KEY-----\\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\\n"
SURROUNDED = [
    ('signature: {secrets: ["whsec_a", "${A}"]}', "routes.0.signature.secrets.1: begins or ends"),
    ('signature: {secrets: "${A}"}', "routes.0.signature.secrets: begins or ends with white space"),
    ('verify_token: "${A}"', "routes.0.verify_token: begins or ends with white space"),
]


@pytest.mark.parametrize(("line", "message"), SURROUNDED)
def test_a_secret_with_white_space_around_it_is_refused_and_not_shown(
    mistakes: Mistakes, line: str, message: str
) -> None:
    for secret in ("whsec_b\n", " whsec_b", "whsec_b\r"):
        (said,) = without_place(mistakes(provided("stripe", line), env={"A": secret}))
        assert said.startswith(message)
        assert "whsec_b" not in said


def test_the_line_break_at_a_files_end_is_no_part_of_a_secret(read: Read, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"whsec_b\r\n")
    (route,) = read(provided("stripe", 'signature: {secrets: "${file:secret}"}')).routes
    assert route.signature is not None
    assert route.signature.secrets == ("whsec_b",)


def test_a_public_key_may_end_with_a_line_break(read: Read) -> None:
    read(provided("discord-events", f'signature: {{secrets: "{PEM}-----END PUBLIC KEY-----\\n"}}'))


def test_one_route_of_a_provider_without_a_file_says_that_nothing_is_verified() -> None:
    def warned(provider: str | None, env: dict[str, str]) -> bool:
        where = ("http://127.0.0.1:3000", "/hooks", None if provider else "json:/id")
        said = quick(*where, provider=provider, env=env).warnings
        return any("routes.0.signature: deliveries are not verified" in one for one in said)

    secrets = {"DEDUP__ROUTES__0__SIGNATURE__SECRETS": "whsec_a"}
    store = {"DEDUP__STORE__DSN": "postgresql://h/d"}
    assert [warned("stripe", env) for env in ({}, store, secrets)] == [True, True, False]
    assert [warned("plaid", {}), warned(None, {})] == [False, False]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("", True),
        ("on_mixed: whole", False),
        (f"resign: true\n{SECRET}", False),
    ],
)
def test_check_says_why_mixed_batches_go_whole(read: Read, lines: str, why: bool) -> None:
    batch = "batch: {items: json:/*, event_id: json:/id}"
    findings = check(read(provided("stripe", batch, *lines.splitlines())))
    said = str(findings.routes[0].sender.batch)
    assert ("because the signature covers the body and resign is false" in said) is why


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_that_protects_nothing_is_warned_about(read: Read, name: str) -> None:
    given = presets.preset(name)
    said = " ".join(read(provided(name)).warnings)
    assert ("nothing here is deduplicated" in said) is given.passes
    assert ("watch it in observe" in said) is (given.doubt is not None and not given.passes)
