"""Mistakes in a route's path and in its consumer's address, word for word."""

from __future__ import annotations

import pytest

from tests.config.conftest import Mistakes, whole

UPSTREAMS = [
    ("127.0.0.1:3000", "'127.0.0.1:3000' is not an http or https URL; write http://HOST:PORT"),
    ("ftp://x", "'ftp://x' is not an http or https URL; write http://HOST:PORT"),
    ("ftp://u:secret@x", "'ftp://***@x' is not an http or https URL; write http://HOST:PORT"),
    ("http://u:secret@x", "has a user name or password in it; write the URL without them"),
    (
        "http://x/?a=b",
        "has a query or a fragment; write the URL without, the sender's follows",
    ),
    (
        "http://x/#top",
        "has a query or a fragment; write the URL without, the sender's follows",
    ),
    ("http://", "'http://' has no usable host and port; write http://HOST:PORT"),
    ("http://x:0", "'http://x:0' has no usable host and port; write http://HOST:PORT"),
    ("http://x:99999", "'http://x:99999' has a port above 65535; write one up to that"),
    ("http://[::1", "'http://[::1' has no usable host and port; write http://HOST:PORT"),
    ("http://x/ü", "'http://x/ü' has characters that no URL has; percent-encode them"),
    (
        "http://x/{id}",
        "'http://x/{id}' has braces or angle brackets, which nothing is put in place of; "
        "write the URL that is really meant",
    ),
    ("http://x/a/../b", "'http://x/a/../b' has . or .. in it; write the path that is really meant"),
    ("http://127.0.0.1:8080", "127.0.0.1:8080 is the gateway itself; write the consumer's address"),
    ("http://localhost:8081", "localhost:8081 is the gateway itself; write the consumer's address"),
]


@pytest.mark.parametrize(("url", "message"), UPSTREAMS)
def test_an_upstream_that_cannot_be_meant_is_refused(
    mistakes: Mistakes, url: str, message: str
) -> None:
    text = whole().replace("http://127.0.0.1:3000", url)
    assert mistakes(text) == [f"gateway.yaml:6: routes.0.upstream.url: {message}"]


def test_an_upstream_that_is_only_its_address_is_shown_as_it_is_written(
    mistakes: Mistakes,
) -> None:
    text = whole().replace('{url: "http://127.0.0.1:3000"}', "http://u:secret@127.0.0.1:3000")
    assert mistakes(text) == [
        "gateway.yaml:6: routes.0.upstream: is not a mapping; "
        'write upstream: {url: "http://***@127.0.0.1:3000"}'
    ]


PATHS = [
    ("hooks", "'hooks' does not start with a slash; write /hooks"),
    ("/hooks/", "'/hooks/' ends with a slash; write /hooks"),
    ("/a/../b", "'/a/../b' has . or .. in it; write the path that is really meant"),
    (
        "/hooks/*",
        "'/hooks/*' has a wildcard, and a path has none; "
        "write /hooks, which takes itself and what is below it",
    ),
    (
        "/a/shop-{id}/x",
        "'/a/shop-{id}/x' has a wildcard, and a path has none; "
        "write /a, which takes itself and what is below it",
    ),
    (
        "/<shop>",
        "'/<shop>' has a wildcard, and a path has none; "
        "write /, which takes itself and what is below it",
    ),
    ("/a?b", "'/a?b' has a query or a fragment; write the path alone"),
    ("/ü", "'/ü' has characters that no target has; percent-encode them"),
]


@pytest.mark.parametrize(("path", "message"), PATHS)
def test_a_path_that_no_request_can_have_is_refused(
    mistakes: Mistakes, path: str, message: str
) -> None:
    text = whole().replace("/hooks/orders", path)
    assert mistakes(text) == [f"gateway.yaml:5: routes.0.path: {message}"]
