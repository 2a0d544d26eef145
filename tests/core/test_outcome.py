"""What a consumer's reply means."""

from __future__ import annotations

import pytest

from gateway.core.outcome import (
    REFUSED_BEFORE_EFFECT,
    SUCCESS,
    Ambiguous,
    Delivered,
    Outcome,
    Refused,
    Reply,
    StatusPolicy,
    Unreached,
    judge,
    name_of,
)

USUAL = StatusPolicy(SUCCESS, REFUSED_BEFORE_EFFECT)
AFTER = ((b"Retry-After", b"5"),)


def reply(
    status: int, headers: tuple[tuple[bytes, bytes], ...] = (), *, whole: bool = True
) -> Reply:
    return Reply(status, b"x", headers, b"", complete=whole)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 208, 299])
def test_a_success_is_delivered_even_when_its_body_broke_off(status: int) -> None:
    for whole in (True, False):
        assert judge(reply(status, whole=whole), USUAL) == Delivered(reply(status, whole=whole))


# Every status that somebody may meet, and whether the consumer may have acted before it.
REFUSALS = [
    *((status, False) for status in (400, 401, 403, 404, 405, 410, 413, 415, 422, 425, 429)),
    *((status, True) for status in (301, 302, 303, 307, 308, 304)),
    *((status, True) for status in (402, 406, 408, 409, 411, 412, 414, 418, 423, 451, 499)),
    *((status, True) for status in (500, 501, 502, 503, 504, 507, 599)),
]


@pytest.mark.parametrize(("status", "doubtful"), REFUSALS)
def test_any_other_reply_is_a_refusal_and_doubtful_unless_it_came_before_any_effect(
    status: int, doubtful: bool
) -> None:
    assert judge(reply(status), USUAL) == Refused(reply(status), doubtful=doubtful)


def test_an_overload_that_names_a_time_came_before_any_effect() -> None:
    for name in (b"Retry-After", b"retry-after"):
        headers = ((name, b"5"),)
        assert judge(reply(503, headers), USUAL) == Refused(reply(503, headers), doubtful=False)
    assert judge(reply(500, AFTER), USUAL) == Refused(reply(500, AFTER), doubtful=True)


def test_a_list_of_the_routes_own_leaves_no_room_for_the_usual_refusals() -> None:
    own = StatusPolicy(SUCCESS, frozenset({418}), overload_is_refusal=False)
    assert judge(reply(418), own) == Refused(reply(418), doubtful=False)
    assert judge(reply(400), own) == Refused(reply(400), doubtful=True)
    assert judge(reply(503, AFTER), own) == Refused(reply(503, AFTER), doubtful=True)
    listed = StatusPolicy(SUCCESS, frozenset({503}), overload_is_refusal=False)
    assert judge(reply(503), listed) == Refused(reply(503), doubtful=False)


def test_a_route_may_call_further_statuses_success() -> None:
    policy = StatusPolicy(SUCCESS | {409}, REFUSED_BEFORE_EFFECT)
    assert judge(reply(409), policy) == Delivered(reply(409))


@pytest.mark.parametrize("status", [302, 400, 404, 500, 503])
def test_a_refusal_that_broke_off_is_ambiguous(status: int) -> None:
    found = judge(reply(status, AFTER, whole=False), USUAL)
    assert found == Ambiguous("reply_broken_off")


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (Delivered(reply(200)), "delivered"),
        (Refused(reply(500), doubtful=True), "refused"),
        (Unreached("refused"), "unreached"),
        (Ambiguous("reset"), "ambiguous"),
    ],
)
def test_each_outcome_has_its_word(outcome: Outcome, word: str) -> None:
    assert name_of(outcome) == word
