"""What killed servers and gateways leave behind does not stop the next start."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import asyncpg
import pytest

from gateway.store import cluster
from gateway.store.embedded import EmbeddedError
from tests.rig.deadline import eventually
from tests.store.embedded.neighbours import (
    Events,
    Make,
    ask,
    asked_again,
    end,
    gateway,
    kill,
    living,
    needs_proc,
    popen,
    programs_for,
    said_by,
    who,
)


async def test_a_killed_postmaster_comes_back_with_what_was_committed(
    server: Make, events: Events
) -> None:
    running = server()
    dsn = running.start()
    await ask(dsn, "create table committed as select 42 n", "select 1")
    assert not running.supervise_once()
    watch = asyncio.create_task(running.supervise())

    killed = kill(running)
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

    kill(running)
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
    events: Events,
) -> None:
    programs_of_ours = place / "links"
    programs_of_ours.mkdir()
    for name in ("postgres", "initdb"):
        (programs_of_ours / name).symlink_to(programs_for(place) / name)
    monkeypatch.setenv("PG_BIN", str(programs_of_ours))
    running = server()
    dsn = running.start()
    (programs_of_ours / "postgres").rename(place / "elsewhere")

    kill(running)
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


# Memory takes its time to be given back, and all that while a process has no command line.
HOLDS_MEMORY = "import time; held = b'x' * 200_000_000; print(flush=True); time.sleep(60)"


@needs_proc
def test_a_process_that_is_ending_is_nobody_elses(place: Path, tmp_path: Path) -> None:
    layout = cluster.Layout(place / "store")
    layout.cluster.mkdir(parents=True, exist_ok=True)
    named = tmp_path / "postgres"
    named.symlink_to(os.path.realpath(sys.executable))
    looks = []
    for _ in range(5):
        with subprocess.Popen(
            [named, "-c", HOLDS_MEMORY, layout.mark], cwd=layout.cluster, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            looks.append(living(place))
            process.kill()
            while found := living(place):
                looks.append(found)
    assert all(ours for found in looks if found for ours in found.values())


@needs_proc
def test_a_dead_process_that_we_may_not_look_at_does_not_live_here(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has reaped it, and a container's root sees no more than that it was a Postgres."""

    def forbidden(_: object) -> str:
        raise PermissionError

    named = tmp_path / "postgres"
    named.symlink_to(os.path.realpath(sys.executable))
    with subprocess.Popen([named, "-c", "print(flush=True)"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        monkeypatch.setattr(os, "readlink", forbidden)
        assert living(place) == {}


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
