"""Processor time is read from /proc: nothing is forgotten and nothing counts twice."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.processes import child_named, own_time, server, stat, tree_time

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"
# Burns in a child that it waits for, says so, and waits for the end of its input.
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}])
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_tree_includes_children_that_have_ended_and_a_process_alone_does_not() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        alone, tree = own_time(parent.pid), tree_time(parent.pid)
        parent.communicate()
    assert tree - alone >= 0.29
    assert tree < 2 * 0.3 + alone  # once, not twice


def test_a_child_is_found_by_its_name() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        assert child_named(os.getpid(), "sleep") == child.pid
        assert child_named(os.getpid(), "no such program") is None
        child.kill()


def test_a_process_that_has_ended_has_no_figures() -> None:
    with subprocess.Popen(["true"]) as child:
        pass
    assert stat(child.pid) is None


async def test_a_server_of_the_bench_ends_with_whoever_started_it() -> None:
    async with server("bench.consumer") as (pid, port):
        assert stat(pid) is not None
        assert port > 0
    assert stat(pid) is None
