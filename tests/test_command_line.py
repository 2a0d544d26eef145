"""What the program says and does about its own command line."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway import cli, process, sources
from gateway.core.location import describe
from gateway.failures import sentence
from gateway.store import cluster, multihost, programs
from gateway.store.embedded import EmbeddedError

FILE = """\
store: {dsn: "${DATABASE_URL}"}
routes:
  - name: orders
    path: /hooks/orders
    upstream: {url: "http://127.0.0.1:3000"}
    event_id: json:/event_id
"""
ROUTE = ["--upstream", "http://127.0.0.1:3000", "--path", "/hooks", "--event-id", "json:/id"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, to run commands in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def taken() -> Iterator[str]:
    """An address on which somebody else listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield f"127.0.0.1:{other.getsockname()[1]}"


def run(*words: str) -> Result:
    return CliRunner().invoke(cli.app, words)


@pytest.mark.parametrize("verb", [["serve"], ["check"], ["try", "x.json"]])
def test_an_empty_folder_is_told_how_to_name_a_file_and_only_serve_how_to_do_without(
    verb: list[str],
) -> None:
    ended = run(*verb)
    assert ended.exit_code == 2
    assert ended.stderr.startswith("gateway.yaml: is not in this folder; write --config FILE")
    without = "--upstream URL --path PATH --event-id WHERE" in ended.stderr
    assert without is (verb == ["serve"])


def test_settings_without_a_file_that_are_not_enough_say_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEDUP__STORE__DSN", "postgresql://h/d")
    said = run("check").stderr
    assert "routes: missing" in said
    assert "gateway.yaml: is not in this folder" in said


ALONE = [
    (["--path", "/x"], "serve needs --upstream and --event-id or --provider beside --path"),
    (
        ["--upstream", "http://h"],
        "serve needs --path and --event-id or --provider beside --upstream",
    ),
    (ROUTE[:4], "serve needs --event-id or --provider beside --upstream and --path, as in"),
    (
        [*ROUTE, "--config", "x"],
        "leave out --config, or --upstream and --path and --event-id\n",
    ),
    (["--provider", "stripe"], "serve needs --upstream and --path beside --provider, as in"),
    (
        ["--path", "/x", "--config", "x"],
        "--config does not go with --path; leave out --config, or --path",
    ),
]


@pytest.mark.parametrize(("words", "message"), ALONE)
def test_flags_that_are_not_enough_or_too_many_are_named(words: list[str], message: str) -> None:
    ended = run("serve", *words)
    assert (ended.exit_code, message in ended.stderr) == (2, True), ended.stderr


def test_a_file_beside_a_route_on_the_command_line_is_said_to_be_unread(folder: Path) -> None:
    given = {"upstream": "http://h", "path": "/", "event_id": "json:/id"}
    assert not any("gateway.yaml" in said for said in sources.one_route(None, given, {}).warnings)
    (folder / "gateway.yaml").write_text(FILE)
    assert sources.one_route(None, given, {}).warnings[-1] == (
        "serve --upstream: gateway.yaml in this folder is not read; leave --upstream out to use it"
    )


ONE: list[tuple[dict[str, str | None], str]] = [
    ({"event_id": None, "provider": "stripe"}, "json:/id"),
    ({"event_id": "header:X-Id", "provider": "stripe"}, "header:X-Id"),
    ({"event_id": "header:X-Id", "provider": None}, "header:X-Id"),
]


@pytest.mark.parametrize(("given", "event_id"), ONE)
def test_one_route_takes_its_id_from_a_preset_unless_it_has_its_own(
    given: dict[str, str | None], event_id: str
) -> None:
    loaded = sources.one_route(None, {"upstream": "http://h", "path": "/x", **given}, {})
    (part,) = loaded.routes[0].recipe.parts
    assert describe(part) == event_id
    assert loaded.providers == ({"x": "stripe"} if given["provider"] else {})


FLAGS = [
    (["--admin", "9"], "flag --admin: admin.listen: '9' is not an address"),
    (["--listen", "h:70000"], "flag --listen: listen: 'h:70000' has a port above 65535"),
    (["--embedded", " "], "flag --embedded: store.embedded: is empty"),
    (["--provider", "Stripe"], "flag --provider: routes.0.provider: 'Stripe' is no provider that"),
    (["--event-id", "X-Id"], "flag --event-id: routes.0.event_id: 'X-Id' does not say where"),
]


@pytest.mark.parametrize(("words", "message"), FLAGS)
def test_a_mistake_in_a_flag_names_the_flag_as_it_was_written(
    words: list[str], message: str
) -> None:
    ended = run("serve", *ROUTE, *words)
    assert (ended.exit_code, ended.stderr.startswith(message)) == (2, True), ended.stderr


def test_migrating_needs_a_store_and_nothing_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "write --dsn postgresql://owner@host/database, or --config" in run("migrate").stderr
    away = "postgresql://u:secret@127.0.0.1:1/d"
    monkeypatch.setenv("DEDUP__STORE__DSN", away)
    assert run("migrate").exit_code == 3
    monkeypatch.delenv("DEDUP__STORE__DSN")
    monkeypatch.setenv("DATABASE_URL", away)
    (folder / "gateway.yaml").write_text(FILE.replace("orders\n", "${UNSET}\n"))
    ended = run("migrate")
    assert ended.exit_code == 3
    assert ended.stderr == (
        "the store postgresql://u@127.0.0.1:1/d cannot be migrated: "
        "connection refused at 127.0.0.1:1\n"
    )


def test_migrating_refuses_a_dsn_that_cannot_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable, said = "postgresql://u:secret@h:abc/d", "port 'abc' is not a number"
    flagged = run("migrate", "--dsn", unreadable)
    assert (flagged.exit_code, flagged.stderr.startswith(f"--dsn: {said}")) == (2, True)
    monkeypatch.setenv("DATABASE_URL", unreadable)
    (folder / "gateway.yaml").write_text(FILE)
    filed = run("migrate")
    assert (filed.exit_code, f"store.dsn: {said}" in filed.stderr) == (2, True)
    assert run("check").exit_code == 2


def test_what_the_system_says_is_told_without_its_numbers(taken: str) -> None:
    assert "nope.yaml: cannot be read: no such file" in run("check", "--config", "nope.yaml").stderr
    Path("gateway.yaml").write_text(FILE.replace("${DATABASE_URL}", "postgresql://h/d"))
    assert run("try", "nope.json").stderr == "nope.json: no such file or directory\n"


async def test_each_host_of_an_absent_store_is_named_without_its_password() -> None:
    target = multihost.parse("postgresql://u:secret@127.0.0.1:1,localhost:2/d")
    with pytest.raises(multihost.NoWritableHost) as caught:
        await multihost.connect(target)
    said = sorted(str(caught.value).split("; "))
    assert said[0] == "connection refused at 127.0.0.1:1"
    # Refused, or not known where /etc/hosts is missing.
    assert said[1].startswith("localhost:2: ")
    assert "secret" not in str(caught.value)


SENTENCES = [
    (OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), "
             "[Errno 111] Connect call failed ('127.0.0.1', 1)"),
     "connection refused at [::1]:1, connection refused at 127.0.0.1:1"),
    (OSError(-2, "Name or service not known"), "Name or service not known"),
    (TimeoutError(), "no answer in time"),
    (OSError(98, "cannot listen on 127.0.0.1:1: Address already in use"),
     "cannot listen on 127.0.0.1:1: Address already in use"),
    (ValueError("anything else"), "anything else"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "said"), SENTENCES)
def test_a_failure_of_the_system_becomes_a_sentence(error: Exception, said: str) -> None:
    assert sentence(error) == said


async def test_the_reason_why_a_start_failed_is_logged_before_its_end(
    taken: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "gateway")
    given = {"upstream": "http://127.0.0.1:3", "path": "/", "event_id": "json:/id"}
    away = {"store.dsn": "postgresql://u@127.0.0.1:1/d", "listen": taken, "admin": "127.0.0.1:0"}
    assert await process.serve(sources.one_route(None, given, away), None) == 2
    told = [record.getMessage() for record in caplog.records]
    assert told[-2:] == ["start_failed", "stopped"]
    assert vars(caplog.records[-2])["detail"] == (
        f"cannot listen on {taken}: Address already in use;"
        " write another address under listen, or --listen HOST:PORT, or DEDUP__LISTEN=HOST:PORT"
    )


@pytest.mark.parametrize(
    ("setting", "remedy"),
    [("listen", "under listen, or --listen"), ("admin", "under admin.listen, or --admin")],
)
@pytest.mark.parametrize("host", ["taken", "nowhere.invalid:1"])
async def test_an_address_that_cannot_be_had_is_named_with_its_setting(
    taken: str, setting: str, remedy: str, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"upstream": "http://127.0.0.1:3", "path": "/", "event_id": "json:/id"}
    flags = {"store.dsn": "postgresql://u@127.0.0.1:1/d", "listen": "127.0.0.1:0"}
    flags |= {"admin": "127.0.0.1:0", setting: taken if host == "taken" else host}
    assert await process.serve(sources.one_route(None, given, flags), None) == 2
    (detail,) = [vars(line)["detail"] for line in caplog.records if line.msg == "start_failed"]
    assert detail.startswith("cannot listen on " + flags[setting])
    assert remedy in detail


def test_a_usual_place_that_cannot_be_made_is_not_advised(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").touch()
    closed = cluster.Layout((folder / "file" / "store").resolve())
    who = programs.account(None, folder)
    with pytest.raises(EmbeddedError) as caught:
        cluster.prepare(closed, who, folder / "file" / "store")
    assert str(caught.value).endswith(
        "; name another folder by --embedded FOLDER or store.embedded"
    )
    with pytest.raises(EmbeddedError, match=r"such as /elsewhere$"):
        cluster.prepare(closed, who, Path("/elsewhere"))


@pytest.mark.parametrize(
    "words", [["--version"], ["--help"], ["schema"], ["migrate", "--print"], ["nonsense"]]
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_screen_that_takes_nothing_is_no_traceback(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        program = [sys.executable, "-m", "gateway", *words]
        ended = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        mute = subprocess.run(program, stdout=full, stderr=full, timeout=60)
    assert len(ended.stderr.splitlines()) == (4 if words == ["nonsense"] else 1), ended.stderr
    assert (ended.returncode, mute.returncode > 0) == (2 if words == ["nonsense"] else 1, True)


def test_help_shows_a_switch_without_a_value_and_each_command_in_a_sentence() -> None:
    for words in ([], ["check"], ["migrate"]):
        assert "<" not in run(*words, "--help").stdout
    assert "..." not in run("--help").stdout.partition("Commands:")[2]


def test_help_fits_a_terminal_and_says_which_flags_go_together() -> None:
    for verb in ("serve", "check", "try", "migrate"):
        said = CliRunner(env={"COLUMNS": "80"}).invoke(cli.app, [verb, "--help"]).stdout
        assert max(map(len, said.splitlines())) <= 80
    said = CliRunner(env={"COLUMNS": "80"}).invoke(cli.app, ["serve", "--help"]).stdout
    assert "--upstream, --path and --event-id or --provider go together" in " ".join(said.split())
