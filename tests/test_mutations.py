"""The edits of `make mutate` keep up with what they break."""

from __future__ import annotations

import pytest

from scripts.edits import EDITS, TESTS, Edit
from scripts.edits_of_audits import EDITS_OF_AUDITS, TESTS_OF_AUDITS
from scripts.edits_of_backfills import EDITS_OF_BACKFILLS, TESTS_OF_BACKFILLS
from scripts.edits_of_batches import EDITS_OF_BATCHES
from scripts.edits_of_retention import EDITS_OF_RETENTION, TESTS_OF_RETENTION
from scripts.edits_of_rules import EDITS_OF_RULES, TESTS_OF_RULES
from scripts.edits_of_signatures import EDITS_OF_SIGNATURES, TESTS_OF_SIGNATURES
from tests.readme import ROOT

ALL = [
    *EDITS,
    *EDITS_OF_BATCHES,
    *EDITS_OF_SIGNATURES,
    *EDITS_OF_AUDITS,
    *EDITS_OF_BACKFILLS,
    *EDITS_OF_RULES,
    *EDITS_OF_RETENTION,
]


@pytest.mark.parametrize("edit", ALL, ids=lambda edit: str(edit.name))
def test_an_edit_finds_its_text_as_often_as_it_says(edit: Edit) -> None:
    assert (ROOT / edit.file).read_text("utf-8").count(edit.old) == edit.times


@pytest.mark.parametrize("file", sorted({edit.file for edit in ALL}))
def test_what_an_edit_breaks_has_tests_that_are_there(file: str) -> None:
    tests = {
        **TESTS,
        **TESTS_OF_SIGNATURES,
        **TESTS_OF_AUDITS,
        **TESTS_OF_BACKFILLS,
        **TESTS_OF_RULES,
        **TESTS_OF_RETENTION,
    }[file]
    assert tests
    for test in tests:
        assert (ROOT / test.partition("::")[0]).is_file(), test
