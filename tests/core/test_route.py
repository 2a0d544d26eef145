"""Which route a request is for, and what the consumer sees of its target."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gateway.core.addressing import RouteTable, bare_host, rewritten
from gateway.core.retention import Promise
from gateway.core.route import (
    Route,
    Upstream,
)
from tests.routes import ROUTE, UPSTREAM


def upstream(path: str | None = None, **other: Any) -> Upstream:
    return replace(replace(UPSTREAM, host="consumer", port=80, path=path), **other)


def route(
    path: str = "/hooks/orders",
    *hosts: str,
    to: Upstream | None = None,
    patience: float | None = None,
) -> Route:
    waits = None if patience is None else timedelta(seconds=patience)
    promise = None if patience is None else Promise(waits, timedelta(1), timedelta(1), "", None)
    return replace(
        ROUTE, name=path, path=path, hosts=hosts, upstream=to or upstream(), promise=promise
    )


@pytest.mark.parametrize(
    ("target", "taken"),
    [
        ("/hooks/orders", True),
        ("/hooks/orders/", True),
        ("/hooks/orders/a%2Fb", True),
        ("/hooks/orders?x=/y", True),
        ("/hooks/orders/?", True),
        ("/hooks/orders2", False),
        ("/hooks/order", False),
        ("/hooks", False),
        ("/Hooks/orders", False),
        ("/hooks/%6Frders", False),
        ("//hooks/orders", False),
        ("/x?/hooks/orders", False),
        ("/hooks/orders;v=1", False),
    ],
)
def test_a_route_takes_whole_raw_segments(target: str, taken: bool) -> None:
    found = RouteTable((route(),)).find(target, b"h")
    assert (found is not None) is taken


def test_the_longest_path_wins_whatever_the_order() -> None:
    short, long = route("/hooks"), route("/hooks/orders")
    for table in (RouteTable((short, long)), RouteTable((long, short))):
        assert table.find("/hooks/orders/1", None) is long
        assert table.find("/hooks/other", None) is short


def test_a_route_for_the_host_wins_over_a_longer_path_for_any_host() -> None:
    any_host, one_host = route("/hooks/orders"), route("/hooks", "a.example.com")
    table = RouteTable((any_host, one_host))
    assert table.find("/hooks/orders", b"a.example.com") is one_host
    assert table.find("/hooks/orders", b"b.example.com") is any_host
    assert table.find("/hooks/orders", None) is any_host


def test_a_host_without_a_fitting_path_falls_back_to_any_host() -> None:
    any_host, one_host = route("/hooks"), route("/other", "a.example.com")
    assert RouteTable((any_host, one_host)).find("/hooks", b"a.example.com") is any_host


def test_a_route_for_a_host_takes_no_other_host() -> None:
    table = RouteTable((route("/hooks", "a.example.com", "b.example.com"),))
    assert table.find("/hooks", b"B.example.com:8443") is not None
    assert table.find("/hooks", b"c.example.com") is None
    assert table.find("/hooks", b"") is None


def test_a_route_at_the_root_takes_everything() -> None:
    table = RouteTable((route(""),))
    assert table.find("/", None) is not None
    assert table.find("/any/thing?x", None) is not None


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b"Example.COM", "example.com"),
        (b"example.com:8443", "example.com"),
        (b"example.com.:80", "example.com"),
        (b"[::1]:8080", "[::1]"),
        (b"[::1]", "[::1]"),
        (b"", None),
        (None, None),
    ],
)
def test_a_host_header_is_compared_without_port_case_and_final_dot(
    header: bytes | None, name: str | None
) -> None:
    assert bare_host(header) == name


@pytest.mark.parametrize(
    ("base", "target", "seen"),
    [
        (None, "/hooks/orders/a%2Fb?b=2&a=1", "/hooks/orders/a%2Fb?b=2&a=1"),
        (None, "/hooks/orders?", "/hooks/orders?"),
        ("/base", "/hooks/orders", "/base"),
        ("/base", "/hooks/orders/x//y/", "/base/x//y/"),
        ("/base/", "/hooks/orders/x", "/base/x"),
        ("/base/", "/hooks/orders", "/base/"),
        ("/base", "/hooks/orders?q=%E9", "/base?q=%E9"),
        ("/ipn.php", "/hooks/orders?", "/ipn.php?"),
    ],
)
def test_an_upstream_path_replaces_the_routes_and_the_rest_follows_raw(
    base: str | None, target: str, seen: str
) -> None:
    assert rewritten(target, route(to=upstream(base))) == seen


def test_a_route_at_the_root_is_put_below_an_upstream_path() -> None:
    assert rewritten("/x?y", route("", to=upstream("/base"))) == "/base/x?y"


@pytest.mark.parametrize(
    ("target", "seen"),
    [("/old?a=1", "/base?a=1"), ("/hooks/orders2/x", "/base"), ("/hooks/orders/x?b", "/base/x?b")],
)
def test_a_target_that_was_stored_under_another_path_is_not_cut_in_the_middle(
    target: str, seen: str
) -> None:
    assert rewritten(target, route("/hooks/orders", to=upstream("/base"))) == seen


@pytest.mark.parametrize(
    ("patience", "waits"), [(None, 5.0), (8, 7.0), (60, 10.0), (1, 0.0), (0.5, 0.0)]
)
def test_a_duplicate_waits_a_second_less_than_the_provider_does(
    patience: float | None, waits: float
) -> None:
    assert route(patience=patience).busy_wait == waits


@pytest.mark.parametrize(
    ("scheme", "host", "port", "authority"),
    [
        ("http", "consumer", 80, "consumer"),
        ("https", "consumer", 443, "consumer"),
        ("http", "consumer", 443, "consumer:443"),
        ("http", "::1", 3000, "[::1]:3000"),
    ],
)
def test_an_authority_is_written_as_in_a_host_header(
    scheme: str, host: str, port: int, authority: str
) -> None:
    assert upstream(scheme=scheme, host=host, port=port).authority == authority


def test_a_forward_takes_a_slot_a_connection_and_its_time_at_the_longest() -> None:
    assert upstream().longest == 37.0
