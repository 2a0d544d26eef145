"""Statements in files: each under its name, and those for many elements in a form for one."""

from __future__ import annotations

import pytest

from gateway.store.queries import ForMany, Statement, read

MANY = Statement(
    "many",
    'select * from unnest($1::uuid[], $2::"char"[]) with ordinality as a(key, state, n)'
    " where $3::text <> ''",
)


def test_one_element_gets_the_form_with_values_and_two_get_arrays() -> None:
    both = ForMany(MANY)
    assert both.fitting([1, 2], ["a", "b"]) == (MANY, ([1, 2], ["a", "b"]))
    one, values = both.fitting([1], ["a"])
    assert one.name == "many"
    assert one.sql == (
        'select * from (values ($1::uuid, $2::"char", 1)) as a(key, state, n)'
        " where $3::text <> ''"
    )
    assert values == [1, "a"]


@pytest.mark.parametrize(
    "statement",
    [
        *read("claims.sql").values(),
        *(read("inbox.sql")[n] for n in ("accept", "store", "put_back")),
    ],
    ids=lambda statement: statement.name,
)
def test_every_statement_of_a_batch_has_a_form_for_one(statement: Statement) -> None:
    assert "unnest" not in statement.for_one().sql
    assert "[]" not in statement.for_one().sql


def test_a_statement_that_unpacks_nothing_has_no_form_for_one() -> None:
    with pytest.raises(ValueError, match="lone does not unpack"):
        Statement("lone", "select 1").for_one()
