"""Who wins over whom, and how far a variable reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import Dsn, Embedded, load
from gateway.core.route import FixedReply, Mode
from tests.config.conftest import Mistakes, Read, whole


def test_the_environment_wins_over_the_file_and_a_flag_over_both(read: Read) -> None:
    text = whole(top="listen: 127.0.0.1:1001")
    env = {"DEDUP__LISTEN": "127.0.0.1:1002"}
    flags = {"listen": "127.0.0.1:1003"}
    assert read(text).listen[0].port == 1001
    assert read(text, env=env).listen[0].port == 1002
    assert read(text, env=env, flags=flags).listen[0].port == 1003
    assert read(text, env=env, flags={"listen": None}).listen[0].port == 1002
    assert read(whole()).listen[0].port == 8080


def test_a_variable_reaches_into_a_list_by_index(read: Read) -> None:
    loaded = read(
        whole(route="methods: [POST, PUT]"),
        env={
            "DEDUP__ROUTES__0__MODE": "observe",
            "DEDUP__ROUTES__0__UPSTREAM__TIMEOUT": "9s",
            "DEDUP__ROUTES__0__METHODS__1": "patch",
        },
    )
    (route,) = loaded.routes
    assert route.mode is Mode.OBSERVE
    assert route.upstream.timeout == 9.0
    assert route.upstream.port == 3000
    assert route.methods == {"POST", "PATCH"}


def test_a_variable_may_hold_a_whole_list_or_mapping(read: Read) -> None:
    loaded = read(
        whole(route="methods: [POST, PUT]"),
        env={
            "DEDUP__ROUTES__0__METHODS": "[DELETE]",
            "DEDUP__STORE": '{dsn: "postgresql://h/d"}',
            "DEDUP__TRUSTED_PROXIES": '["10.0.0.0/8", "::1"]',
            "DEDUP__ROUTES__0__DUPLICATE_REPLY": r'{body: "{\"ok\": true}"}',
        },
    )
    assert loaded.routes[0].methods == {"DELETE"}
    assert loaded.store == Dsn("postgresql://h/d")
    assert len(loaded.trusted_proxies) == 2
    assert loaded.routes[0].duplicate_reply == FixedReply(200, "text/plain", b'{"ok": true}')


def test_variables_alone_are_a_configuration() -> None:
    env = {"DEDUP__STORE__DSN": "postgresql://h/d"}
    for index in range(11):
        env |= {
            f"DEDUP__ROUTES__{index}__NAME": f"r{index}",
            f"DEDUP__ROUTES__{index}__PATH": f"/r{index}",
            f"DEDUP__ROUTES__{index}__UPSTREAM__URL": "http://consumer:3000",
            f"DEDUP__ROUTES__{index}__EVENT_ID": "json:/id",
        }
    loaded = load(None, env=env)
    assert [route.name for route in loaded.routes] == [f"r{index}" for index in range(11)]


def test_a_value_from_the_environment_is_taken_as_it_is(read: Read) -> None:
    env = {"DEDUP__STORE": "", "DEDUP__STORE__DSN": "postgresql://u:p$${X}@h/d"}
    del env["DEDUP__STORE"]
    text = whole().replace("store: {embedded: ./data}\n", "")
    assert read(text, env=env).store == Dsn("postgresql://u:p$${X}@h/d")


NOWHERE = [
    ("DEDUP__LIMIT__CONNECTIONS", "5", "limit: unknown setting; did you mean limits?"),
    ("DEDUP__ROUTES__0__MOD", "observe", "routes.0.mod: unknown setting; did you mean mode?"),
    ("DEDUP__ROUTES__4__MODE", "observe",
     "routes.4.mode: cannot be set, routes has 1 item, so the next index is 1; "
     "set the whole of it instead"),
    ("DEDUP__ROUTES__FIRST__MODE", "observe",
     "routes.first.mode: cannot be set, routes is a list, and 'first' is not an index; "
     "set the whole of it instead"),
    ("DEDUP__ROUTES__0__EVENT_ID__0", "json:/a",
     "routes.0.event_id.0: cannot be set, routes.0.event_id is a single text already, "
     "with nothing inside; set the whole of it instead"),
    ("DEDUP__", "x", ": names no setting; write DEDUP__A__B for a.b"),
    ("DEDUP__A____B", "x", "a..b: names no setting; write DEDUP__A__B for a.b"),
    ("DEDUP__DRAIN_DELAY", "5",
     "drain_delay: '5' has no unit; write 5s if seconds are meant"),
    ("DEDUP__ROUTES__0__DUPLICATE_REPLY__BODY", '{"ok": true}',
     "routes.0.duplicate_reply.body: is a mapping here; "
     "set routes.0.duplicate_reply as a whole, and in it this value in quotes"),
    ("DEDUP__ROUTES__0__METHODS", "[POST",
     "not YAML: braces or brackets are not closed; "
     "write a list as in [POST, PUT], a mapping as in {url: http://127.0.0.1:3000}"),
]  # fmt: skip


@pytest.mark.parametrize(("variable", "value", "message"), NOWHERE)
def test_a_variable_that_leads_nowhere_is_a_mistake_that_names_it(
    mistakes: Mistakes, variable: str, value: str, message: str
) -> None:
    (said,) = mistakes(whole(), env={variable: value})
    assert said.startswith(f"environment {variable}:")
    assert said.endswith(message)


def test_other_variables_are_none_of_our_business(read: Read) -> None:
    assert read(whole(), env={"DEDUP_FAILPOINT": "x", "XDEDUP__A": "y", "dedup__a": "z"})


def test_every_value_knows_who_set_it(read: Read) -> None:
    loaded = read(
        whole(top="drain_delay: 3s"),
        env={"DEDUP__ROUTES__0__MODE": "observe"},
        flags={"admin.listen": "127.0.0.1:0"},
    )
    assert loaded.source_of("drain_delay") == "gateway.yaml line 2"
    assert loaded.source_of("routes", 0, "mode") == "environment DEDUP__ROUTES__0__MODE"
    assert loaded.source_of("admin", "listen") == "flag --admin-listen"
    assert loaded.source_of("routes", 0, "lease") == "default"


def test_file_names_start_from_the_folder_of_the_file(read: Read, tmp_path: Path) -> None:
    assert read(whole()).store == Embedded(tmp_path / "data", None)


def test_a_file_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    from gateway.config import ConfigError

    with pytest.raises(
        ConfigError, match=r"^/.*nowhere\.yaml: cannot be read: no such file or directory$"
    ):
        load(tmp_path / "nowhere.yaml", env={})
