"""The edits of `make mutate` keep up with what they break."""

from __future__ import annotations

import pytest

from scripts.edits import EDITS, Edit
from scripts.edits_of_batches import EDITS_OF_BATCHES
from scripts.edits_of_signatures import EDITS_OF_SIGNATURES
from tests.readme import ROOT


@pytest.mark.parametrize(
    "edit", [*EDITS, *EDITS_OF_BATCHES, *EDITS_OF_SIGNATURES], ids=lambda edit: str(edit.name)
)
def test_an_edit_finds_its_text_as_often_as_it_says(edit: Edit) -> None:
    assert (ROOT / edit.file).read_text("utf-8").count(edit.old) == edit.times
