"""Presets lie under what a route says itself, and every value says who set it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gateway.config import layers
from gateway.config.route_settings import RouteSettings
from gateway.core.batch import OnMixed
from gateway.core.location import Json, Literal, describe
from gateway.core.route import FixedReply, Mode, Route, StandardReply
from gateway.providers import presets
from tests.config.conftest import Mistakes, Read


def provided(name: str, *lines: str) -> str:
    """A file with one route of a provider."""
    return "\n".join(
        [
            "store: {embedded: ./data}",
            "routes:",
            "  - name: billing",
            "    path: /hooks/billing",
            f"    provider: {name}",
            '    upstream: {url: "http://127.0.0.1:3000"}',
            *(f"    {line}" for line in lines),
        ]
    )


def ids(route: Route) -> list[str]:
    return [describe(part) for part in route.recipe.parts]


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_makes_a_route(read: Read, name: str) -> None:
    route = read(provided(name)).routes[0]
    given = presets.preset(name)
    assert (route.pass_through is not None) == given.passes
    assert given.passes or route.recipe.parts or route.batch is not None
    assert route.recipe.scope[0] == Literal("billing")
    assert route.mode is (Mode.OBSERVE if given.doubt else Mode.FORWARD)


def test_a_preset_fills_in_and_says_how_well_it_knows(read: Read) -> None:
    loaded = read(provided("stripe"))
    route = loaded.routes[0]
    assert (route.recipe.parts, route.event_type) == ((Json(("id",)),), Json(("type",)))
    assert [describe(part) for part in route.recipe.scope] == [
        "literal:billing",
        "json:/account | literal:-",
    ]
    assert route.promise is not None
    assert (route.promise.retry_horizon, route.promise.timeout) == (
        timedelta(days=3),
        timedelta(seconds=10),
    )
    assert loaded.source_of("routes", 0, "event_id") == "preset stripe (verified)"
    assert loaded.source_of("routes", 0, "promise", "timeout") == "preset stripe (conflicting)"
    assert loaded.providers == {"billing": "stripe"}


MADE = {"DEDUP__ROUTES__0__EVENT_TYPE": "json:/kind"}
FLAG = {"routes.0.event_type": "json:/flag"}


@pytest.mark.parametrize(
    ("lines", "env", "flags", "meant", "origin"),
    [
        ([], {}, {}, "json:/type", "preset stripe (verified)"),
        (["event_type: json:/file"], {}, {}, "json:/file", "gateway.yaml line 7"),
        (["event_type: json:/file"], MADE, {}, "json:/kind", f"environment {next(iter(MADE))}"),
        (["event_type: json:/file"], MADE, FLAG, "json:/flag", "flag --routes-0-event-type"),
        ([], MADE, {}, "json:/kind", f"environment {next(iter(MADE))}"),
    ],
)
def test_a_preset_is_under_flag_environment_and_file(
    read: Read,
    lines: list[str],
    env: dict[str, str],
    flags: dict[str, str],
    meant: str,
    origin: str,
) -> None:
    loaded = read(provided("stripe", *lines), env=env, flags=flags)
    place = loaded.routes[0].event_type
    assert place is not None
    assert describe(place) == meant
    assert loaded.source_of("routes", 0, "event_type") == origin


def test_the_provider_itself_may_come_from_the_environment(read: Read) -> None:
    text = provided("stripe").replace("    provider: stripe\n", "")
    loaded = read(text, env={f"{layers.PREFIX}ROUTES__0__PROVIDER": "stripe"})
    assert ids(loaded.routes[0]) == ["json:/id"]


OWN_ID: list[tuple[str, list[str], list[str], bool, bool]] = [
    # provider, lines, ids, whether there is a batch, whether it passes
    ("sendgrid", ["event_id: header:X-Id"], ["header:X-Id"], False, False),
    ("hubspot", ["event_id: header:X-Id"], ["header:X-Id"], False, False),
    ("stripe", ["batch: {items: json:/a, event_id: json:/id}"], [], True, False),
    ("mollie", ["event_id: form:id"], ["form:id"], False, False),
    ("mollie", ["batch: {items: json:/*, event_id: json:/id}"], [], True, False),
    ("stripe", ["pass_through: nobody minds"], [], False, True),
    ("mollie", [], [], False, True),
    ("hubspot", [], [], True, False),
]


@pytest.mark.parametrize(("name", "lines", "parts", "batched", "passes"), OWN_ID)
def test_what_the_route_calls_an_event_replaces_all_of_what_the_preset_does(
    read: Read, name: str, lines: list[str], parts: list[str], batched: bool, passes: bool
) -> None:
    route = read(provided(name, *lines)).routes[0]
    assert ids(route) == parts
    assert (route.batch is not None, route.pass_through is not None) == (batched, passes)


def test_members_of_a_presets_items_are_not_looked_for_elsewhere(read: Read) -> None:
    assert read(provided("hubspot")).routes[0].per_attempt == (("attemptNumber",),)
    assert read(provided("hubspot", "event_id: header:X-Id")).routes[0].per_attempt == ()
    for items, kept in (("json:/*", True), ("[json:/*]", True), ("json:/events", False)):
        batch = f"batch: {{items: {items}, event_id: json:/eventId}}"
        assert bool(read(provided("hubspot", batch)).routes[0].per_attempt) is kept


def test_a_scope_of_the_route_replaces_its_name_and_the_presets(read: Read) -> None:
    route = read(provided("stripe", "scope: shared")).routes[0]
    assert route.recipe.scope == (Literal("shared"),)


def test_a_promise_is_filled_in_member_by_member(read: Read) -> None:
    loaded = read(provided("stripe", "promise: {redrive_window: 90d}"))
    promise = loaded.routes[0].promise
    assert promise is not None
    assert (promise.redrive_window, promise.retry_horizon) == (
        timedelta(days=90),
        timedelta(days=3),
    )
    assert promise.checked == presets.preset("stripe").checked
    assert promise.source == presets.preset("stripe").settings["promise.retry_horizon"].source
    mine = provided(
        "stripe",
        "promise: {retry_horizon: 1d, timeout: 9s, source: a, checked: 2026-01-01}",
    )
    own = read(mine).routes[0].promise
    assert own is not None
    assert (own.source, str(own.checked)) == ("a", "2026-01-01")
    looked = read(provided("stripe", "promise: {checked: 2026-01-01}")).routes[0].promise
    assert looked is not None
    assert str(looked.checked) == "2026-01-01"


def test_a_promise_that_no_page_is_known_for_says_so(read: Read) -> None:
    promise = read(provided("sendgrid")).routes[0].promise
    assert promise is not None
    assert promise.source == "preset sendgrid, which names no page for it"


def test_a_promise_about_events_is_not_laid_where_there_are_none(read: Read) -> None:
    assert read(provided("mollie")).routes[0].promise is None
    assert read(provided("mollie", "event_id: form:id")).routes[0].promise is not None


def test_an_unknown_part_of_a_promise_counts_as_a_week_and_is_named(read: Read) -> None:
    loaded = read(provided("hubspot", "mode: forward"))
    promise = loaded.routes[0].promise
    assert promise is not None
    assert promise.redrive_window == timedelta(days=7)
    said = next(one for one in loaded.warnings if "redrive_window" in one)
    assert "is unknown and counts as 7d (no way to have old events sent again is known)" in said


MODES: list[tuple[str, list[str], Mode, str]] = [
    ("shopify", [], Mode.OBSERVE, "preset shopify (doubtful id)"),
    ("shopify", ["mode: forward"], Mode.FORWARD, "gateway.yaml line 7"),
    ("shopify", ["event_id: header:X-Shopify-Event-Id"], Mode.FORWARD, "default"),
    ("stripe", [], Mode.FORWARD, "default"),
]


@pytest.mark.parametrize(("name", "lines", "mode", "origin"), MODES)
def test_a_doubtful_preset_observes_until_the_route_says_otherwise(
    read: Read, name: str, lines: list[str], mode: Mode, origin: str
) -> None:
    loaded = read(provided(name, *lines))
    assert loaded.routes[0].mode is mode
    assert loaded.source_of("routes", 0, "mode") == origin
    doubted = any("the preset's id is doubtful" in one for one in loaded.warnings)
    assert doubted == (name == "shopify" and "event_id" not in "".join(lines))


def test_a_mode_from_the_environment_is_one_that_the_route_says(read: Read) -> None:
    loaded = read(provided("shopify"), env={"DEDUP__ROUTES__0__MODE": "forward"})
    assert loaded.routes[0].mode is Mode.FORWARD


def test_the_scheme_is_the_presets_only_where_the_route_checks(read: Read) -> None:
    assert read(provided("stripe")).routes[0].signature is None
    signed = read(provided("stripe", "signature: {secrets: whsec_a}")).routes[0].signature
    assert signed is not None
    assert (signed.scheme, signed.tolerance) == ("stripe", 300)
    other = "signature: {scheme: github, secrets: a}"
    chosen = read(provided("stripe", other)).routes[0].signature
    assert chosen is not None
    assert chosen.scheme == "github"


def test_a_reply_that_may_be_anything_stays_ours_and_a_required_one_is_the_presets(
    read: Read,
) -> None:
    assert read(provided("stripe")).routes[0].duplicate_reply == StandardReply()
    reply = read(provided("twilio")).routes[0].duplicate_reply
    assert reply == FixedReply(200, "text/xml", b"<Response/>")
    own = read(provided("twilio", "duplicate_reply: standard")).routes[0].duplicate_reply
    assert own == StandardReply()


def test_handshakes_of_the_route_replace_the_presets(read: Read) -> None:
    assert read(provided("slack")).routes[0].handshakes
    assert read(provided("slack", "handshakes: []")).routes[0].handshakes == ()


MISTAKEN = [
    ("Stripe", "'Stripe' is no provider that is known; did you mean stripe?"),
    ("azure_event_grid", "'azure_event_grid' is no provider that is known; did you mean azure"),
    ("nobody", "'nobody' is no provider that is known; see `dedup-gateway providers`"),
]


@pytest.mark.parametrize(("name", "message"), MISTAKEN)
def test_an_unknown_provider_is_named_with_those_that_are_near(
    mistakes: Mistakes, name: str, message: str
) -> None:
    said = mistakes(provided(name, "mode: forwad"))
    assert any(one.startswith(f"gateway.yaml:5: routes.0.provider: {message}") for one in said)
    assert any("routes.0.mode" in one for one in said)
    assert not any("routes.0.event_id" in one for one in said)


def test_a_mistake_in_what_lies_over_a_preset_has_its_own_place(mistakes: Mistakes) -> None:
    said = mistakes(provided("stripe", "promise: {retry_horizon: soon}", "event_id: nowhere"))
    assert [one.partition(": ")[0] for one in said] == ["gateway.yaml:7", "gateway.yaml:8"]


def test_a_provider_in_a_variable_that_is_absent_is_no_mistake_without_environment(
    read: Read,
) -> None:
    assert read(provided("${WHOSE}"), variables_required=False).routes


@pytest.mark.parametrize(
    ("name", "lines", "mixed"),
    [
        ("hubspot", [], OnMixed.WHOLE),
        ("hubspot", ["signature: {secrets: a}", "resign: true"], OnMixed.FILTER),
        ("hubspot", ["signature: {scheme: bearer-token, secrets: a}"], OnMixed.FILTER),
        ("okta", [], OnMixed.FILTER),
        ("okta", ["on_mixed: whole"], OnMixed.WHOLE),
    ],
)
def test_a_mixed_batch_is_filtered_only_where_its_signature_survives_that(
    read: Read, name: str, lines: list[str], mixed: OnMixed
) -> None:
    policy = read(provided(name, *lines)).routes[0].batch
    assert policy is not None
    assert policy.on_mixed is mixed


def test_settings_do_not_show_secrets(read: Read) -> None:
    loaded = read(
        provided("meta", "verify_token: hunter2", "signature: {secrets: [hunter3, hunter4]}")
    )
    assert isinstance(loaded.written[0], RouteSettings)
    assert "hunter" not in repr(loaded.written[0]) + repr(loaded)
