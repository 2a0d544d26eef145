"""YAML as people write it: what it cannot do to a value, what is said when it is none."""

from __future__ import annotations

import pytest

from gateway.config.yaml_lines import MOST_VALUES
from gateway.config.yaml_lines import read as read_yaml
from gateway.core.location import Header, Literal
from gateway.core.route import FixedReply
from tests.config.conftest import Mistakes, Read, whole


@pytest.mark.parametrize(
    "name", ["on", "no", "yes", "010", "1e3", "0x1f", "2026-08-25", "1_000", "true", ".5", "NaN"]
)
def test_a_value_that_yaml_would_guess_about_stays_the_text_that_was_typed(
    read: Read, name: str
) -> None:
    if name.startswith("."):
        assert read(whole(route=f"scope: {name}")).routes[0].recipe.scope == (Literal(name),)
    else:
        text = whole().replace("name: orders", f"name: {name}")
        assert read(text).routes[0].name == name


def test_quoted_and_plain_values_are_the_same(read: Read) -> None:
    plain = read(whole(route="lease: 60s\nbody_limit: 1MiB\nmethods: [post]"))
    quoted = read(whole(route="lease: '60s'\nbody_limit: \"1MiB\"\nmethods: ['post']"))
    assert plain.routes == quoted.routes


def test_a_body_may_be_any_text_in_quotes(read: Read) -> None:
    route = read(whole(route="duplicate_reply: {body: '{\"ok\": true}'}")).routes[0]
    assert route.duplicate_reply == FixedReply(200, "text/plain", b'{"ok": true}')


def test_an_empty_text_in_quotes_is_a_value(read: Read) -> None:
    assert read(whole(route='duplicate_reply: {body: ""}')).routes[0].duplicate_reply == FixedReply(
        200, None, b""
    )


def test_anchors_and_merge_keys_work_and_a_route_may_override_them(read: Read) -> None:
    loaded = read(
        """\
        store: {embedded: ./data}
        routes:
          - &usual
            name: a
            path: /a
            upstream: &near {url: "http://127.0.0.1:3000", timeout: 7s}
            event_id: header:X-Id
          - <<: *usual
            name: b
            path: /b
            upstream: {<<: *near, connect_timeout: 1s}
        """
    )
    assert [route.name for route in loaded.routes] == ["a", "b"]
    assert [route.upstream.timeout for route in loaded.routes] == [7.0, 7.0]
    assert [route.upstream.connect_timeout for route in loaded.routes] == [2.0, 1.0]
    assert loaded.routes[1].recipe.parts == (Header("X-Id"),)


def test_a_setting_given_twice_is_reported_with_both_lines(mistakes: Mistakes) -> None:
    assert mistakes(whole(route="mode: forward\nlease: 60s\nmode: observe")) == [
        "gateway.yaml:10: routes.0.mode: given twice, here and on line 8; keep one of them"
    ]


UNREADABLE = [
    ("a: {b: ${X}}", "gateway.yaml:1: not YAML: braces or brackets are not closed; "
     'quote a value that has some, as in "${NAME}"'),
    ("a: [b", "gateway.yaml:1: not YAML: braces or brackets are not closed; "
     'quote a value that has some, as in "${NAME}"'),
    ("a: @b", "gateway.yaml:1: not YAML: a value begins with a sign that YAML keeps for itself; "
     "quote it"),
    ("a:\n\tb: 1", "gateway.yaml:2: not YAML: a tab is no indentation; write blanks"),
    ("a: json: /x", "gateway.yaml:1: not YAML: a second ': ' in one line, or an indentation that "
     "nothing explains; quote a value that has ': ' in it, or mend the indentation"),
    ("a: *b", "gateway.yaml:1: not YAML: * refers to a name that nothing has (&name); "
     "quote a value that starts with *"),
    ("a: [*.example.com]",
     "gateway.yaml:1: not YAML: * and & begin a name here; quote a value that starts with * or &"),
    ("a:\n    b: 1\n  c: 2", "gateway.yaml:3: not YAML: an indentation that does not fit the lines "
     "above; indent what belongs together alike"),
    ("a: 1\nb\nc: 2", "gateway.yaml:3: not YAML: a line without name and value; "
     "write name: value, with a blank after the colon"),
    ('a: "b', "gateway.yaml:1: not YAML: a quotation mark is not closed; close it"),
    ("a: 1\n---\nb: 2", "gateway.yaml:2: not YAML: more than one document; "
     "keep one in the file, without ---"),
    ("a: 1\nb: x\0y", "gateway.yaml:2: not YAML: has the invisible character U+0000; remove it, "
     "or save the file as plain UTF-8"),
    ("- a", "gateway.yaml:1: not a mapping; write settings as name: value"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), UNREADABLE)
def test_a_file_that_is_no_yaml_is_refused_with_what_was_probably_meant(
    mistakes: Mistakes, text: str, message: str
) -> None:
    assert mistakes(text) == [message]


def test_a_tag_is_refused(mistakes: Mistakes) -> None:
    assert mistakes(whole(route="lease: !!int 3"))[0] == (
        "gateway.yaml:8: routes.0.lease: has the tag tag:yaml.org,2002:int; remove the tag"
    )


def test_aliases_cannot_make_a_file_endless() -> None:
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    _, problems = read_yaml("\n".join(["a0: &a0 [x]", *rows]), "file")
    assert len(problems) == 1
    assert "far too many" in str(problems[0])
    assert MOST_VALUES < 10**6


def test_an_alias_of_itself_is_refused() -> None:
    _, problems = read_yaml("a: &a [*a]", "file")
    assert [str(problem) for problem in problems] == [
        "file:1: a.0: an alias of itself, or far too many; write it out"
    ]


def test_an_empty_file_says_what_is_missing(mistakes: Mistakes) -> None:
    assert [line.partition("; ")[0] for line in mistakes("# nothing\n")] == [
        "gateway.yaml: store: missing",
        "gateway.yaml: routes: missing",
    ]
