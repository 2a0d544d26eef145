"""CHANGELOG says in one sentence each what a release changes for operators."""

from __future__ import annotations

import re
from pathlib import Path

from gateway import __version__

CHANGELOG = (Path(__file__).parents[1] / "CHANGELOG.md").read_text("utf-8")


def test_the_changelog_has_this_release_in_one_sentence_each() -> None:
    assert re.search(rf"^## {re.escape(__version__)}$", CHANGELOG, re.MULTILINE)
    for line in re.findall(r"^- (.+)$", CHANGELOG, re.MULTILINE):
        assert line.endswith(".")
        assert not re.search(r"\. [A-Z]", line)
