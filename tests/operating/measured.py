"""Commands as programs of their own, and the most memory that they had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# By itself: what a parent is told of its child begins with the parent's own memory.
_PROGRAM = """
import sys
from gateway.cli import app
try:
    app()
finally:
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(int(status["VmHWM"].split()[0]) // 1024, file=sys.stderr)
"""


def measured(*words: str, code: int = 0) -> tuple[str, int]:
    """What a command prints, which has to end with that code; and mebibytes."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    line = [sys.executable, "-c", _PROGRAM, *words]
    ended = subprocess.run(line, capture_output=True, text=True, env=env, check=False)
    assert ended.returncode == code, ended.stderr
    return ended.stdout, int(ended.stderr.splitlines()[-1])
