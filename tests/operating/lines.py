"""Command lines, run as a person would."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from gateway import cli

WHO = ("--by", "alice", "--reason", "the consumer is back")


async def run(*words: str, stdin: bytes | None = None) -> Result:
    """In a thread, because a command has a loop of its own."""
    runner = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"})
    return await asyncio.to_thread(runner.invoke, cli.app, words, stdin)


async def told(*words: str, code: int = 0) -> Any:
    """What it says with --json."""
    ended = await run(*words, "--json")
    assert ended.exit_code == code, ended.output
    return json.loads(ended.stdout)


async def refused(*words: str, code: int = 1) -> str:
    """What it says where it does nothing."""
    ended = await run(*words)
    assert ended.exit_code == code, ended.output
    return ended.stderr


async def at_a_terminal(*words: str, answer: bytes) -> tuple[int, bool]:
    """The exit code, and whether it asked."""
    return await asyncio.to_thread(_at_a_terminal, words, answer)


def _at_a_terminal(words: tuple[str, ...], answer: bytes) -> tuple[int, bool]:
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "gateway", *words]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        said = b""
        while b"[y/N]" not in said and select.select([ours], [], [], 30)[0]:
            said += os.read(ours, 4096)
        os.write(ours, answer)
        code = process.wait(30)
    os.close(ours)
    return code, b"[y/N]" in said
