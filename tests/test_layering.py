"""Which part may import which is a contract, and a broken contract is a failing test."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Names of drawers: a file is named after a noun or a technology.
DRAWERS = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc", "service"}


def test_every_import_contract_is_kept() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("tree", ["gateway", "tests", "bench", "scripts"])
def test_no_module_is_a_drawer(tree: str) -> None:
    named = {path.stem for path in (ROOT / tree).rglob("*.py")} | {
        path.name for path in (ROOT / tree).rglob("*") if path.is_dir()
    }
    assert not named & DRAWERS


def test_at_most_two_broad_handlers_exist_around_a_request_and_around_a_task() -> None:
    broad = re.compile(r"^\s*except (Exception|BaseException)\b|^\s*except:", re.MULTILINE)
    found = [
        f"{path.relative_to(ROOT)}: {match[0].strip()}"
        for path in (ROOT / "gateway").rglob("*.py")
        for match in broad.finditer(path.read_text())
        if "except BaseException:\n" not in path.read_text()[match.start() : match.end() + 2]
    ]
    assert len(found) <= 2, found


@pytest.mark.parametrize("path", sorted(ROOT.glob("gateway/**/*.py")), ids=lambda p: p.stem)
def test_no_module_outgrows_what_one_can_read(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300
