"""`${NAME}` in values: once, after parsing, and never by accident."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import Dsn, fingerprint
from gateway.core.route import FixedReply
from tests.config.conftest import Mistakes, Read, whole

STORE = "store: {embedded: ./data}"


def _body(read: Read, text: str, env: dict[str, str]) -> str:
    reply = read(whole(route=f"duplicate_reply: {{body: '{text}'}}"), env=env)
    how = reply.routes[0].duplicate_reply
    assert isinstance(how, FixedReply)
    return how.body.decode()


EXPANDED = [
    ("${A}", {"A": "1"}, "1"),
    ("x${A}y${A}", {"A": "1"}, "x1y1"),
    ("${A}", {"A": ""}, ""),
    ("${A:-d}", {}, "d"),
    ("${A:-d}", {"A": ""}, "d"),
    ("${A:-d}", {"A": "1"}, "1"),
    ("${A:-}", {}, ""),
    ("$$", {}, "$"),
    ("$${A}", {"A": "1"}, "${A}"),
    ("$A costs $5", {"A": "1"}, "$A costs $5"),
    ("${A}", {"A": "${B} $$"}, "${B} $$"),
    ("${A}", {"A": 'x": {y: [z'}, 'x": {y: [z'),
]


@pytest.mark.parametrize(("text", "env", "value"), EXPANDED)
def test_a_value_is_expanded_once(read: Read, text: str, env: dict[str, str], value: str) -> None:
    assert _body(read, text, env) == value


NOT_EXPANDED = [
    ("${A}", "the variable A is not set; set it, or write ${A:-a default}"),
    ("${A", "has ${ without }; write ${NAME}, or $${ for the two characters"),
    ("${}", "has ${}, which names no variable; write ${NAME}, ${NAME:-default} or ${file:PATH}, "
     "or $${ for the two characters"),
    ("${1A}", "has ${1A}, which names no variable; write ${NAME}, ${NAME:-default} or "
     "${file:PATH}, or $${ for the two characters"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), NOT_EXPANDED)
def test_what_cannot_be_expanded_is_a_mistake(mistakes: Mistakes, text: str, message: str) -> None:
    said = mistakes(whole(route=f"duplicate_reply: {{body: '{text}'}}"))
    assert said == [f"gateway.yaml:8: routes.0.duplicate_reply.body: {message}"]


def test_every_variable_that_is_not_set_is_named(mistakes: Mistakes) -> None:
    said = mistakes(whole(route='lease: "${LEASE}"\nscope: "${SCOPE}"'))
    assert ["LEASE" in said[0], "SCOPE" in said[1], len(said)] == [True, True, 2]


def test_a_number_may_come_from_a_variable(read: Read) -> None:
    text = whole(top="limits: {connections: '${N}'}", route='idempotency_key: "${K}"')
    loaded = read(text, env={"N": "12", "K": "true"})
    assert loaded.limits.connections == 12
    assert loaded.routes[0].idempotency_key is True


def test_a_file_is_a_value_without_its_last_line_break(read: Read, tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text("postgresql://u:s3cret@h/d\n")
    loaded = read(whole().replace(STORE, 'store: {dsn: "${file:dsn}"}'))
    assert loaded.store == Dsn("postgresql://u:s3cret@h/d")
    assert "s3cret" not in repr(loaded)
    assert str(loaded.store) == "postgresql://u@h/d"
    assert str(Dsn("postgresql://u:p@a,[::1]:5/d?x=1")) == "postgresql://u@a,[::1]:5/d"


def test_a_new_secret_in_a_file_changes_the_fingerprint(read: Read, tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text("postgresql://u:old@h/d")
    loaded = read(whole().replace(STORE, 'store: {dsn: "${file:dsn}"}'))
    assert fingerprint(loaded.files) == loaded.digest
    (tmp_path / "dsn").write_text("postgresql://u:new@h/d")
    assert fingerprint(loaded.files) != loaded.digest


def test_a_file_that_is_not_there_names_itself(mistakes: Mistakes, tmp_path: Path) -> None:
    assert mistakes(whole().replace(STORE, 'store: {dsn: "${file:gone}"}')) == [
        f"gateway.yaml:1: store.dsn: cannot read {tmp_path / 'gone'}: No such file or directory; "
        "write a file that exists"
    ]


def test_names_of_settings_are_not_expanded(mistakes: Mistakes) -> None:
    (said,) = mistakes(whole(top='"${A}": 1'), env={"A": "drain_delay"})
    assert said.startswith("gateway.yaml:2: ${A}: unknown setting")


def test_a_check_without_the_environment_needs_no_variable(read: Read) -> None:
    text = (
        whole(route='lease: "${LEASE}"\nbody_limit: "${LIMIT}"\nscope: "${SCOPE}"')
        .replace(STORE, 'store: {dsn: "${DATABASE_URL}"}')
        .replace("http://127.0.0.1:3000", "http://${CONSUMER}:3000")
    )
    loaded = read(text, variables_required=False)
    assert loaded.routes[0].upstream.host == "placeholder"
    assert loaded.routes[0].lease == 42.0
    assert isinstance(loaded.store, Dsn)


def test_a_check_without_the_environment_takes_any_part_of_a_dsn_from_it(read: Read) -> None:
    dsn = "${SCHEME}://u:${PASSWORD}@${HOST}:${PORT}/d?sslmode=${MODE}"
    read(whole().replace(STORE, f'store: {{dsn: "{dsn}"}}'), variables_required=False)


def test_a_check_without_the_environment_still_finds_mistakes(read: Read) -> None:
    from gateway.config import ConfigError

    with pytest.raises(ConfigError) as caught:
        read(whole(route='lease: "${LEASE}"\nmode: forwards'), variables_required=False)
    assert [problem.path for problem in caught.value.problems] == ["routes.0.mode"]
