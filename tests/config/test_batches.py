"""Batches, operation keys and what an event is at all: what is refused, said and built."""

from __future__ import annotations

import pytest

from gateway.config import check, report
from gateway.core.batch import OnMixed
from gateway.core.location import Header, Json, Literal
from tests.config.conftest import Mistakes, Read, whole, without_place
from tests.config.test_preset_layer import provided

BATCH = "batch: {items: json:/*, event_id: json:/id}"


def without_id(*lines: str) -> str:
    return whole(route="\n".join(lines)).replace("    event_id: json:/event_id\n", "")


REFUSED = [
    ("", "routes.0.event_id: missing; write event_id: json:/id, or header:NAME"),
    ("operation_key: json:/a", "routes.0.event_id: missing; write event_id"),
    ("batch: {event_id: json:/id}", "routes.0.batch.items: missing; write items: json:/events, or"),
    ("batch: {items: json:/*}", "routes.0.batch.event_id: missing; write event_id: json:/id"),
    ("batch: json:/*", 'routes.0.batch: is not a mapping; write batch: {items: "json:/*"}'),
    ("batch: {items: [], event_id: json:/id}", "routes.0.batch.items: is an empty list"),
    ("batch: {items: json:/*, event_id: []}", "routes.0.batch.event_id: is an empty list"),
    ("batch: {items: events, event_id: json:/id}",
     "routes.0.batch.items: 'events' is no member of a JSON body; write json:/NAME"),
    ("batch: {items: json:events, event_id: json:/id}",
     "routes.0.batch.items: the JSON pointer 'events' must start with a slash"),
    ("batch: {items: json:/, event_id: json:/id}",
     "routes.0.batch.items: 'json:/' is the member without a name; write json:/*"),
    ("batch: {items: json:/*, event_id: literal:a}",
     "routes.0.batch.event_id: can be the same for unrelated deliveries"),
    ("batch: {items: json:/*, event_id: header:Connection}",
     "routes.0.batch.event_id: header:Connection ends at the gateway"),
    ('on_doubt: probe\nprobe: {url: "http://h/{event_id}"}\n' + BATCH,
     "routes.0.on_doubt: probe asks about one event, and a batch has several"),
    (f"operation_key: json:/order\n{BATCH}", "routes.0.operation_key: names one operation"),
    (f"on_mixed: some\n{BATCH}", "routes.0.on_mixed: 'some' means nothing here; write filter"),
    ("event_id: json:/id\non_mixed: filter", "routes.0.on_mixed: is about batches"),
    ("event_id: json:/id\noperation_key: []", "routes.0.operation_key: is an empty list"),
    ("event_id: json:/id\noperation_key: literal:a", "routes.0.operation_key: can be the same"),
    ("event_id: json:/id\noperation_key: [json:/a, header:Connection]",
     "routes.0.operation_key: header:Connection ends at the gateway"),
    ("event_id: json:/id\nper_attempt: header:X", "routes.0.per_attempt: 'header:X' is no member"),
    ("event_id: json:/id\npass_through: nobody minds",
     "routes.0.pass_through: says that nothing here is deduplicated, and event_id how it is"),
    (f"pass_through: nobody minds\n{BATCH}", "routes.0.pass_through: says that nothing here"),
    ("pass_through: nobody minds\nmode: inbox", "routes.0.mode: inbox stores events"),
    ("pass_through: yes", "routes.0.pass_through: 'yes' is no reason"),
    (f"{BATCH}\non_stale: hold", "routes.0.on_stale: needs the event's own time"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "message"), REFUSED)
def test_what_contradicts_is_refused(mistakes: Mistakes, lines: str, message: str) -> None:
    (said,) = without_place(mistakes(without_id(*lines.splitlines())))
    assert said.startswith(message)


# The public key of the private key 7, on P-256.
SENDGRID = (
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEjlM7b6C/e0YluzBmfAH7YH75+L"
    "ioD+9bMAYocDGHsqNz6x294DMYNm0Gn4Om9ZAAU8c2M8sEGyHFXhqGwfQAtA=="
)
PROVIDED = [
    ("hubspot", "operation_key: json:/a", "routes.0.operation_key: names one operation"),
    ("mollie", "mode: inbox", "routes.0.mode: inbox stores events, and pass_through says"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "lines", "message"), PROVIDED)
def test_what_contradicts_a_preset_is_refused(
    mistakes: Mistakes, name: str, lines: str, message: str
) -> None:
    assert any(message in one for one in mistakes(provided(name, *lines.splitlines())))


MAY_BE_FILTERED = [
    ("sendgrid", "", "write whole, unless it checks none"),
    ("sendgrid", f"signature: {{secrets: {SENDGRID}}}", "write whole, unless it checks none"),
    ("hubspot", "signature: {secrets: a}", "write resign: true, with signature.secrets, or whole"),
]


@pytest.mark.parametrize(("name", "lines", "remedy"), MAY_BE_FILTERED)
def test_a_signed_batch_is_filtered_where_somebody_says_so_and_warned_about(
    read: Read, name: str, lines: str, remedy: str
) -> None:
    loaded = read(provided(name, "on_mixed: filter", *lines.splitlines()))
    batch = loaded.routes[0].batch
    assert batch is not None
    assert batch.on_mixed is OnMixed.FILTER
    (said,) = [one for one in loaded.warnings if "routes.0.on_mixed" in one]
    assert "a filtered batch does not verify at a consumer that checks the signature" in said
    assert remedy in said


def test_a_preset_that_protects_nothing_is_a_warning(read: Read) -> None:
    said = read(provided("mollie")).warnings
    assert any("routes.0.pass_through: nothing here is deduplicated" in one for one in said)


FINE = [
    BATCH,
    f"{BATCH}\non_mixed: filter",
    f"{BATCH}\non_mixed: filter\nsignature: {{scheme: github, secrets: a}}\nresign: true",
    f"{BATCH}\nsignature: {{scheme: bearer-token, secrets: a}}\non_mixed: filter",
    f"event_id: json:/id\n{BATCH}",
    "batch: {items: json:/*, event_id: json:/id, event_time: json:/at}\non_stale: hold",
    "event_id: json:/id\noperation_key: [literal:ticket, json:/order/id, header:X-Topic]",
    "pass_through: nobody minds",
]


@pytest.mark.parametrize("lines", FINE)
def test_what_goes_together_is_taken(read: Read, lines: str) -> None:
    assert read(without_id(*lines.splitlines())).warnings == ()


PLACES = [
    ("json:/*", [()]),
    ("json:/events", [("events",)]),
    ("json:/events/*", [("events",)]),
    ("json:/entry/*/changes", [("entry", "*", "changes")]),
    ("json:/entry/*/changes/*", [("entry", "*", "changes")]),
    ("json:/*/*", [("*",)]),
    ("json:/a~1b/c~0d", [("a/b", "c~d")]),
    ("[json:/a, json:/b/*]", [("a",), ("b",)]),
]


@pytest.mark.parametrize(("written", "pointers"), PLACES)
def test_a_list_is_named_by_itself_or_by_its_elements(
    read: Read, written: str, pointers: list[tuple[str, ...]]
) -> None:
    policy = read(without_id(f"batch: {{items: {written}, event_id: json:/id}}")).routes[0].batch
    assert policy is not None
    assert list(policy.items) == pointers


def test_a_batch_is_built_as_written(read: Read) -> None:
    lines = (
        "batch: {items: json:/*, event_id: [header:X, json:/id], event_type: json:/t, "
        "event_time: json:/at}",
        "per_attempt: [json:/attempt, json:/a/*/b]",
        "on_mixed: whole",
    )
    route = read(without_id(*lines)).routes[0]
    policy = route.batch
    assert policy is not None
    assert policy.parts == (Header("X"), Json(("id",)))
    assert (policy.event_type, policy.event_time) == (Json(("t",)), Json(("at",)))
    assert (policy.on_mixed, route.recipe.parts) == (OnMixed.WHOLE, ())
    assert route.per_attempt == (("attempt",), ("a", "*", "b"))
    assert route.decisive == {b"x"}


def test_an_operation_key_is_beside_the_id(read: Read) -> None:
    lines = ("event_id: json:/id", "operation_key: [literal:ticket, json:/order]")
    recipe = read(without_id(*lines)).routes[0].recipe
    assert recipe.parts == (Json(("id",)),)
    assert recipe.operation == (Literal("ticket"), Json(("order",)))


def test_an_operation_key_without_kept_ids_is_a_warning(read: Read) -> None:
    text = without_id("event_id: json:/id", "operation_key: json:/order")
    (said,) = read(text.replace("./data}", "./data, keep_ids: false}")).warnings
    assert "routes.0.operation_key: without store.keep_ids another event of an" in said


def test_holding_doubts_of_batches_that_go_whole_is_a_warning(read: Read) -> None:
    said = read(without_id(BATCH, "on_mixed: whole", "on_doubt: hold")).warnings
    waits = "routes.0.on_doubt: a mixed batch that would go whole waits for a person"
    assert any(waits in one for one in said)
    said = read(without_id(BATCH, "on_mixed: filter", "on_doubt: hold")).warnings
    assert not any("mixed batch" in one for one in said)


NEVER = [
    ("stripe", "event_id: header:Stripe-Signature", "header:Stripe-Signature is no event id of"),
    ("stripe", "event_id: [json:/id, header:stripe-signature]", "header:stripe-signature is no"),
    (
        "stripe",
        "event_id: 'json:/x | header:Stripe-Signature'",
        "is no event id of stripe's: its t=",
    ),
    ("hubspot", "batch: {items: json:/*, event_id: json:/eventId}", "json:/eventId is no event id"),
    ("hubspot", "event_id: json:/attemptNumber", "json:/attemptNumber is no event id of hubspot's"),
]


@pytest.mark.parametrize(("name", "lines", "message"), NEVER)
def test_an_id_that_the_preset_knows_to_be_wrong_is_a_warning(
    read: Read, name: str, lines: str, message: str
) -> None:
    assert any(message in one for one in read(provided(name, lines)).warnings)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("hubspot", "batch: {items: json:/*, event_id: [json:/eventId, json:/portalId]}"),
        ("hubspot", "mode: forward"),
        ("stripe", "event_id: json:/request/id"),
    ],
)
def test_a_part_that_the_preset_takes_itself_is_no_warning(
    read: Read, name: str, lines: str
) -> None:
    assert not any("is no event id" in one for one in read(provided(name, lines)).warnings)


def test_check_says_what_an_event_is(read: Read) -> None:
    def said(text: str) -> str:
        return " ".join(report.as_text(check(read(text))).split())

    batch = said(without_id(BATCH))
    assert "batch items json:/*, each by json:/id; mixed ones: filter, so that only new" in batch
    assert "event id" not in batch.partition("what that means")[0]
    operation = said(without_id("event_id: json:/id", "operation_key: json:/order"))
    assert "operation json:/order, in place of the id" in operation
    passing = said(provided("mollie"))
    assert "passes a classic Mollie webhook says only which payment changed" in passing
    assert "floor" not in passing
    assert "pass_through: everything is forwarded, doubles included" in passing
    doubtful = said(provided("shopify"))
    assert "doubtful Shopify's own pages disagree" in doubtful
    assert "mode observe" in doubtful
