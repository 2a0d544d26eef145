"""Break the rules of claims and entries on purpose, one at a time, and see that tests notice.

    python -m scripts.mutate            all edits
    python -m scripts.mutate doubt      those with "doubt" in their name

Each edit is applied to a copy of the tree, so nothing here changes. Prints which tests caught which
edit. Exits 1 when an edit survives, when one does not fit the source any more, or when the tests
fail without any edit.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.edits import EDITS, TESTS, Edit
from scripts.edits_of_audits import EDITS_OF_AUDITS, TESTS_OF_AUDITS
from scripts.edits_of_backfills import EDITS_OF_BACKFILLS, TESTS_OF_BACKFILLS
from scripts.edits_of_batches import EDITS_OF_BATCHES
from scripts.edits_of_retention import EDITS_OF_RETENTION, TESTS_OF_RETENTION
from scripts.edits_of_rules import EDITS_OF_RULES, TESTS_OF_RULES
from scripts.edits_of_signatures import EDITS_OF_SIGNATURES, TESTS_OF_SIGNATURES

ROOT = Path(__file__).parents[1]
COPIED = ("gateway", "scripts", "tests", "deploy", "pyproject.toml")
# Enough to see whether more than one test notices; after that an edit only costs time.
MOST_FAILURES = 3
# What no edit of a rule can break, and what takes long.
LEFT_OUT = (
    "not primary_key and not kept_for_people and not keep_ids and not however_much_waits"
    " and not large"
)
# Two at once: each brings a Postgres of its own, and two cores are what a small machine has.
AT_ONCE = 2
TIME_LIMIT = 300


def main(wanted: str) -> int:
    every = [
        *EDITS,
        *EDITS_OF_BATCHES,
        *EDITS_OF_SIGNATURES,
        *EDITS_OF_AUDITS,
        *EDITS_OF_BACKFILLS,
        *EDITS_OF_RULES,
        *EDITS_OF_RETENTION,
    ]
    edits = [edit for edit in every if wanted in edit.name]
    misfits = [
        edit for edit in edits if (ROOT / edit.file).read_text().count(edit.old) != edit.times
    ]
    for edit in misfits:
        print(f"does not fit any more: {edit.name}")
    if misfits or not edits:
        return 1
    untouched = [name for file in {edit.file for edit in edits} for name in caught_by(None, file)]
    if untouched:
        print("the tests fail without any edit:", *untouched, sep="\n  ")
        return 1
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda edit: caught_by(edit, edit.file), edits))
    print_matrix(edits, results)
    survivors = [edit.name for edit, caught in zip(edits, results, strict=True) if not caught]
    print(f"\n{len(edits)} edits, {len(survivors)} survived", *survivors, sep="\n  ")
    return 1 if survivors else 0


def caught_by(edit: Edit | None, file: str) -> list[str]:
    """The tests that fail with the edit; with None, those that fail anyway."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as place:
        for name in COPIED:
            source, target = ROOT / name, Path(place) / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        (Path(place) / ".cache").symlink_to(ROOT / ".cache")  # promtool is there, perhaps
        if edit:
            broken = Path(place) / edit.file
            broken.write_text(broken.read_text().replace(edit.old, edit.new))
        tests = {
            **TESTS,
            **TESTS_OF_SIGNATURES,
            **TESTS_OF_AUDITS,
            **TESTS_OF_BACKFILLS,
            **TESTS_OF_RULES,
            **TESTS_OF_RETENTION,
        }
        return failures(Path(place), tests[file])


def failures(place: Path, tests: list[str]) -> list[str]:
    options = ["-q", "--tb=no", "-rfE", "--timeout=60", "-p", "no:cacheprovider"]
    options += ["-k", LEFT_OUT, f"--maxfail={MOST_FAILURES}"]
    command = [sys.executable, "-m", "pytest", *tests, *options]
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, timeout=TIME_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return [f"(nothing within {TIME_LIMIT} s)"]
    found = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode and not found:
        found = [
            f"(pytest ended with {done.returncode}: {done.stdout[-200:] + done.stderr[-200:]})"
        ]
    return found


def print_matrix(edits: list[Edit], results: list[list[str]]) -> None:
    """One line an edit, one column a test file, with the number of tests that failed."""
    files = sorted({_file(test) for caught in results for test in caught})
    width = max(len(edit.name) for edit in edits)
    for n, file in enumerate(files):
        print(f"{' ' * width} {'  | ' * n}  {file}")
    for edit, caught in zip(edits, results, strict=True):
        counts = [sum(_file(test) == file for test in caught) for file in files]
        cells = "".join(f"{count or '.':>3} " for count in counts)
        first = caught[0].rpartition("::")[2] if caught else "SURVIVED"
        print(f"{edit.name:<{width}} {cells} {first[:90]}")


def _file(test: str) -> str:
    return test.partition("::")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
