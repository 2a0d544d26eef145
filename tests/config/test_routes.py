"""What the program gets: every default resolved."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from gateway.config import Embedded, changed, quick
from gateway.core.headers import is_trusted
from gateway.core.location import Form, Header, Json, Literal
from gateway.core.outcome import REFUSED_BEFORE_EFFECT
from gateway.core.retention import Promise
from gateway.core.route import (
    FixedReply,
    Mode,
    OnMissingId,
    OnStoreDown,
    ReplayReply,
    Route,
    StandardReply,
)
from tests.config.conftest import Read, whole


def route_of(read: Read, lines: str = "") -> Route:
    return read(whole(route=lines)).routes[0]


def test_a_route_of_four_lines_has_all_defaults(read: Read) -> None:
    route = route_of(read)
    assert route.mode is Mode.FORWARD
    assert route.hosts == ()
    assert route.recipe.scope == (Literal("orders"),)
    assert route.recipe.parts == (Json(("event_id",)),)
    assert route.retention == timedelta(days=60)
    assert route.floor is None
    assert route.methods == {"POST", "PUT", "PATCH", "DELETE"}
    assert route.missing_id is OnMissingId.FORWARD
    assert route.on_store_down is OnStoreDown.REFUSE
    assert route.duplicate_reply == StandardReply()
    assert route.body_limit == 25 * 2**20
    assert route.lease == 42.0
    assert route.idempotency_key is False
    upstream = route.upstream
    assert (upstream.timeout, upstream.connect_timeout, upstream.write_timeout) == (30, 2, 10)
    assert (upstream.first_byte_timeout, upstream.slot_timeout) == (30, 5)
    assert (upstream.concurrency, upstream.max_reply) == (64, 10 * 2**20)
    assert (upstream.path, upstream.host_header) == (None, None)


def test_the_first_byte_may_take_as_long_as_the_whole_unless_it_is_said(read: Read) -> None:
    text = whole().replace('3000"}', '3000", timeout: 9s}')
    assert read(text).routes[0].upstream.first_byte_timeout == 9.0
    assert read(text).routes[0].lease == 21.0


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://consumer", ("http", "consumer", 80, None)),
        ("https://consumer/", ("https", "consumer", 443, None)),
        ("http://[::1]:3000", ("http", "::1", 3000, None)),
        ("http://Consumer:3000/base/", ("http", "consumer", 3000, "/base/")),
        ("http://consumer/a%2Fb", ("http", "consumer", 80, "/a%2Fb")),
    ],
)
def test_an_upstream_url_is_taken_apart(read: Read, url: str, found: tuple[object, ...]) -> None:
    upstream = read(whole().replace("http://127.0.0.1:3000", url)).routes[0].upstream
    assert (upstream.scheme, upstream.host, upstream.port, upstream.path) == found


@pytest.mark.parametrize(
    ("host", "header"),
    [("preserve", None), ("upstream", "127.0.0.1:3000"), ("shop.example.com", "shop.example.com")],
)
def test_the_host_that_the_consumer_sees(read: Read, host: str, header: str | None) -> None:
    text = whole().replace('3000"}', f'3000", host: {host}}}')
    assert read(text).routes[0].upstream.host_header == header


def test_a_list_of_locations_is_a_composite(read: Read) -> None:
    text = whole().replace("json:/event_id", "[form:txn_id, form:payment_status]")
    assert read(text).routes[0].recipe.parts == (Form("txn_id"), Form("payment_status"))


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ("shop-eu", (Literal("shop-eu"),)),
        ("literal:a:b", (Literal("a:b"),)),
        ("header:X-Account", (Header("X-Account"),)),
        ("[eu, json:/account]", (Literal("eu"), Json(("account",)))),
    ],
)
def test_a_scope_is_a_text_or_locations(read: Read, scope: str, found: tuple[object, ...]) -> None:
    assert route_of(read, f"scope: {scope}").recipe.scope == found


def test_a_lone_slash_takes_everything(read: Read) -> None:
    assert read(whole().replace("/hooks/orders", "/")).routes[0].path == ""


def test_hosts_and_methods_are_compared_without_case(read: Read) -> None:
    route = route_of(read, "hosts: [Hooks.Example.COM]\nmethods: [post, Options]")
    assert route.hosts == ("hooks.example.com",)
    assert route.methods == {"POST", "OPTIONS"}


def test_a_promise_has_a_source_and_a_day(read: Read) -> None:
    route = route_of(
        read,
        "promise: {timeout: 8s, retry_horizon: 72h, redrive_window: 30d, source: here, "
        "checked: 2026-08-25}\nown_replay: 1d",
    )
    assert route.promise == Promise(
        timedelta(seconds=8), timedelta(days=3), timedelta(days=30), "here", date(2026, 8, 25)
    )
    assert route.floor == timedelta(days=34)
    assert route.retention == timedelta(days=42, hours=12)


def test_an_unknown_part_of_a_promise_counts_as_a_week(read: Read) -> None:
    assert route_of(read, "promise: {retry_horizon: 3d}").floor == timedelta(days=10)


def test_further_statuses_mean_success_and_no_longer_refusal(read: Read) -> None:
    status = route_of(read, "success_status: [409, 404]").status
    assert {200, 299, 404, 409} <= status.success
    assert status.refused_before_effect == REFUSED_BEFORE_EFFECT - {404}
    assert status.overload_is_refusal


def test_a_list_of_refusals_replaces_the_default_and_its_503(read: Read) -> None:
    status = route_of(read, "refused_status: [400, 503]").status
    assert status.refused_before_effect == {400, 503}
    assert not status.overload_is_refusal


def test_duplicates_are_told_what_the_route_says(read: Read) -> None:
    assert route_of(read, "duplicate_reply: replay").duplicate_reply == ReplayReply()
    fixed = "duplicate_reply: {status: 202, content_type: text/xml, body: <ok/>}"
    assert route_of(read, fixed).duplicate_reply == FixedReply(202, "text/xml", b"<ok/>")


def test_listeners_are_one_or_many(read: Read) -> None:
    loaded = read(whole(top="listen: [127.0.0.1:0, '[::1]:0', {address: 127.0.0.1:0}]"))
    assert [(one.host, one.port) for one in loaded.listen] == [
        ("127.0.0.1", 0),
        ("::1", 0),
        ("127.0.0.1", 0),
    ]
    assert [one.tls for one in loaded.listen] == [None, None, None]


def test_trusted_proxies_are_networks(read: Read) -> None:
    networks = read(whole(top="trusted_proxies: [10.0.0.0/8, 192.0.2.7]")).trusted_proxies
    assert is_trusted("10.1.2.3", networks)
    assert is_trusted("192.0.2.7", networks)
    assert not is_trusted("192.0.2.8", networks)


def test_only_what_is_read_at_start_needs_a_restart(read: Read) -> None:
    old = read(whole())
    assert changed(old, read(whole(route="mode: observe", top="drain_delay: 9s"))) == []
    assert changed(old, read(whole(top="listen: 127.0.0.1:9"))) == ["listen"]
    assert changed(old, read(whole(top="admin: {listen: 127.0.0.1:9}"))) == ["admin"]
    assert changed(old, read(whole(top="limits: {connections: 9}"))) == ["limits"]
    assert changed(old, read(whole(top="log_deliveries: true"))) == ["log_deliveries"]
    other = whole().replace("./data", "./other")
    assert changed(old, read(other)) == ["store"]
    keeps = whole().replace("./data}", "./data, keep_ids: false}")
    assert changed(old, read(keeps)) == ["store"]


def test_one_route_on_the_command_line_gets_an_embedded_store_and_a_warning() -> None:
    loaded = quick("http://127.0.0.1:3000", "/hooks/orders", "json:/event_id", env={})
    assert loaded.store == Embedded(None, None)
    assert loaded.routes[0].name == "hooks-orders"
    assert loaded.warnings == (
        "serve --upstream: store: an embedded Postgres on this machine, chosen because nothing "
        "names another; write a file with store: before a second gateway runs, or each has a "
        "memory of its own",
    )


def test_one_route_on_the_command_line_may_use_another_store() -> None:
    env = {"DEDUP__STORE__DSN": "postgresql://h/d"}
    loaded = quick("http://127.0.0.1:3000", "/", "header:X-Id", env=env)
    assert str(loaded.store) == "postgresql://h/d"
    assert loaded.routes[0].name == "all"
    assert loaded.warnings == ()


def test_the_command_line_wins_over_the_environment_and_leaves_it_the_rest() -> None:
    env = {
        "DEDUP__ROUTES__0__UPSTREAM__URL": "http://other",
        "DEDUP__ROUTES__0__NAME": "mine",
        "DEDUP__STORE__KEEP_IDS": "false",
    }
    loaded = quick("http://127.0.0.1:3000", "/a%2Fb.c", "json:/id", env=env)
    assert loaded.routes[0].upstream.host == "127.0.0.1"
    assert loaded.routes[0].name == "mine"
    assert (loaded.store, loaded.keep_ids) == (Embedded(None, None), False)


def test_a_mistake_on_the_command_line_names_the_flag() -> None:
    from gateway.config import ConfigError

    with pytest.raises(ConfigError) as caught:
        quick("127.0.0.1:3000", "hooks", "json:/id", env={})
    assert [problem.where for problem in caught.value.problems] == [
        "flag --path",
        "flag --upstream",
    ]
