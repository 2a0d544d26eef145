"""The embedded Postgres on a directory: what it makes of it, and what it refuses."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import asyncpg
import pytest

from gateway.store.embedded import EmbeddedError
from tests.store.embedded.neighbours import Events, Make, ask, living, needs_proc, who


async def test_a_new_directory_becomes_a_server_that_keeps_its_rows(
    server: Make, place: Path
) -> None:
    first = server(place / "new")
    assert await ask(first.start(), "create table kept as select 42 n", "select n from kept") == 42
    first.stop()

    assert await ask(server(place / "new").start(), "select n from kept") == 42


async def test_as_shipped_it_is_durable_and_listens_on_a_unix_socket_only(
    server: Make, place: Path
) -> None:
    dsn = server(place / "shipped", settings={}).start()

    for setting in ("fsync", "synchronous_commit", "full_page_writes", "data_checksums"):
        assert await ask(dsn, f"show {setting}") == "on"
    assert await ask(dsn, "show listen_addresses") == ""


async def test_an_edited_postgresql_conf_cannot_make_it_forgetful(
    server: Make, place: Path
) -> None:
    conf = place / "store" / "cluster" / "postgresql.conf"
    before = conf.read_text()
    conf.write_text(before + "fsync = off\n")

    assert await ask(server(settings={}).start(), "show fsync") == "on"

    conf.write_text(before)


async def test_a_directory_in_use_is_refused_and_its_user_named(server: Make, place: Path) -> None:
    running = server()
    dsn = running.start()

    with pytest.raises(
        EmbeddedError, match=rf"in use by another process \({os.getpid()}\).*--embedded"
    ):
        server().start()

    assert await ask(dsn, "select 1") == 1


async def test_a_directory_of_another_major_version_is_refused_with_the_way_out(
    server: Make, place: Path
) -> None:
    version = place / "store" / "cluster" / "PG_VERSION"
    before = version.read_text()
    version.write_text("14\n")

    with pytest.raises(EmbeddedError, match=r"made by PostgreSQL 14.*Set PG_BIN.*pg_dumpall"):
        server().start()

    version.write_text(before)


async def test_a_path_too_long_for_a_socket_gets_a_short_one_until_the_stop(
    server: Make, place: Path
) -> None:
    data = place / ("long" * 30) / "store"
    running = server(data)
    dsn = running.start()
    assert await ask(dsn, "select 1") == 1
    short = data.joinpath("socket").readlink()

    running.stop()

    assert not short.exists()
    assert not data.joinpath("socket").is_symlink()


async def test_a_directory_name_with_odd_characters_works(server: Make, place: Path) -> None:
    assert await ask(server(place / "a, b & %41 ü").start(), "select 1") == 1


async def test_an_initdb_that_was_cut_short_is_done_again(server: Make, place: Path) -> None:
    unfinished = place / "cut" / "cluster.new-1"
    unfinished.mkdir(parents=True)
    (place / "cut" / "lock").touch()
    (unfinished / "PG_VERSION").write_text("18\n")

    assert await ask(server(place / "cut").start(), "select 1") == 1

    assert not unfinished.exists()


def test_a_directory_with_other_files_is_refused_and_left_as_it_was(
    server: Make, place: Path
) -> None:
    (place / "papers").mkdir()
    (place / "papers" / "thesis.txt").write_text("mine")

    with pytest.raises(EmbeddedError, match=r"holds other files \(thesis.txt, \.\.\.\)"):
        server(place / "papers").start()

    assert os.listdir(place / "papers") == ["thesis.txt"]


def test_a_setting_that_postgres_refuses_is_told_and_nothing_is_left(
    server: Make, place: Path
) -> None:
    log = place / "store" / "postgres.log"
    before = log.read_text().count("FATAL:")

    with pytest.raises(EmbeddedError, match=r"FATAL:.*shared_buffers"):
        server(settings={"shared_buffers": "much"}).start()

    assert log.read_text().count("FATAL:") == before + 1, "tried once: it does not pass"
    assert not living(place)
    server().start()


@needs_proc
async def test_after_stop_no_process_and_no_socket_is_left(server: Make, place: Path) -> None:
    running = server()
    dsn = running.start()
    holding = await asyncpg.connect(dsn)
    await holding.execute("begin")

    running.stop()

    assert living(place) == {}
    assert not list((place / "store" / "cluster").glob(".s.PGSQL*"))
    holding.terminate()


def test_ctrl_c_in_a_terminal_does_not_reach_the_server_before_us(server: Make) -> None:
    running = server()
    running.start()

    assert running.pid is not None
    assert os.getsid(running.pid) == running.pid


def test_it_is_not_started_from_a_thread_whose_end_would_end_it(server: Make) -> None:
    found: list[BaseException] = []

    def start() -> None:
        try:
            server().start()
        except EmbeddedError as error:
            found.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()

    assert "main thread" in str(found)


def test_the_log_says_where_things_are(server: Make, place: Path, events: Events) -> None:
    server().start()

    (event, facts) = events[0]
    assert event == "embedded_store"
    assert facts["data"] == str(place / "store")
    assert facts["user"] == who(place).name
    assert Path(str(facts["programs"])).is_dir()
