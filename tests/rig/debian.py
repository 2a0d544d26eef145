"""Programs of Debian's that some tests need, installed or fetched for the moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FETCH = Path(__file__).parents[2] / "scripts" / "fetch.py"


def path_of(name: str) -> str:
    """The path of the program or library; skips the test, with the reason, where there is none."""
    said = subprocess.run(
        [sys.executable, str(FETCH), name], capture_output=True, text=True, check=False, timeout=120
    )
    if said.returncode:
        pytest.skip(said.stderr.strip())
    return said.stdout.strip()
