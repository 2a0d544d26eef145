"""Entries of batches: one that stands for the claims of many events."""

from __future__ import annotations

import pytest

from gateway.core import batch_entry
from gateway.core.claim import Claim, Settled, State
from gateway.core.event import Delivery, EventKey, Part
from gateway.core.inbox import Conclusion, Entry, EntryEnding, EntryState, Offer

NOW = 1000.0
OURS, THEIRS = 1, 2
PARTS = tuple(Part(EventKey(bytes([n]) * 16, f"item_{n}"), n) for n in range(3))
BATCH = EventKey(b"b" * 16, "item_0,item_1,item_2")
DELIVERY = Delivery("POST", "/", (), b"[]", "127.0.0.1", "http")


def claimed(token: int = OURS, attempt: int = 1, *, doubtful: bool = False) -> Claim:
    return Claim(State.CLAIMED, doubtful, attempt, NOW - 5, 7, token, NOW + 25)


def ended(state: State, *, doubtful: bool = False) -> Claim:
    return Claim(state, doubtful, 1, NOW - 5, 7)


def offer(state: EntryState = EntryState.PENDING, *, doubtful: bool = False) -> Offer:
    return Offer(BATCH, "orders", OURS, 9, DELIVERY, state, 30.0, doubtful, PARTS)


def entry(state: EntryState = EntryState.LEASED, token: int = OURS, **more: object) -> Entry:
    made = {"doubtful": False, "attempt": 1, "since": NOW, "due": NOW + 30, "token": token}
    return Entry(state, **(made | more))  # type: ignore[arg-type]


def conclusion(ending: EntryEnding) -> Conclusion:
    return Conclusion(BATCH, "orders", OURS, 9, ending, False, 4.0, "503", PARTS)


STORED = [
    # claims, whether the offer is doubtful, what each is then, whether the entry is doubtful
    ([claimed(), claimed()], False, ["stored", "stored"], False),
    ([claimed(), claimed(doubtful=True)], False, ["stored", "stored doubtful"], True),
    ([claimed(), claimed()], True, ["stored doubtful", "stored doubtful"], True),
    ([claimed(), claimed(THEIRS)], False, ["stored", "claimed"], True),
    ([claimed(), None], False, ["stored", "none"], True),
    ([claimed(), ended(State.COMPLETED)], False, ["stored", "completed"], True),
]


@pytest.mark.parametrize(("claims", "doubtful", "left", "marked"), STORED)
def test_a_holder_stores_the_claims_that_it_still_has_and_marks_what_it_shares(
    claims: list[Claim | None], doubtful: bool, left: list[str], marked: bool
) -> None:
    after, made, stored = batch_entry.store(claims, None, offer(doubtful=doubtful), NOW)
    assert stored
    words = [
        "none" if c is None else c.state.value + (" doubtful" if c.doubtful else "") for c in after
    ]
    assert words == left
    assert made is not None
    assert made.doubtful is marked


@pytest.mark.parametrize(
    ("state", "attempt"), [(EntryState.PENDING, 2), (EntryState.LEASED, 3), (EntryState.HELD, 2)]
)
def test_an_entry_goes_on_counting_where_the_most_tried_of_its_items_is(
    state: EntryState, attempt: int
) -> None:
    claims = [claimed(), claimed(attempt=3)]
    _, made, _ = batch_entry.store(claims, None, offer(state), NOW)
    assert made is not None
    assert made.attempt == attempt


@pytest.mark.parametrize("state", [EntryState.PENDING, EntryState.LEASED, EntryState.HELD])
def test_an_entry_that_is_owed_under_claims_that_were_lost_stays_as_it_is(
    state: EntryState,
) -> None:
    owed = entry(state, THEIRS)
    after, made, stored = batch_entry.store([claimed(), claimed()], owed, offer(), NOW)
    assert (made, stored) == (owed, True)
    assert all(c is not None and c.state is State.STORED for c in after)


@pytest.mark.parametrize(
    ("claims", "kept", "stored"),
    [
        ([ended(State.STORED), None], entry(), True),
        ([ended(State.STORED), None], entry(token=THEIRS), False),
        ([ended(State.STORED), None], None, False),
        ([ended(State.COMPLETED), claimed(THEIRS)], entry(), False),
    ],
)
def test_storing_again_finds_its_own_entry_and_nothing_is_stored_without_any_claim(
    claims: list[Claim | None], kept: Entry | None, stored: bool
) -> None:
    assert batch_entry.store(claims, kept, offer(), NOW) == (claims, kept, stored)


@pytest.mark.parametrize(
    ("states", "leased", "doubtful"),
    [
        ([State.STORED, State.STORED], True, False),
        ([State.STORED, State.COMPLETED], True, True),
        ([State.COMPLETED, State.COMPLETED], False, False),
        ([], True, False),
    ],
)
def test_a_batch_is_over_with_its_last_item_and_marked_from_its_first(
    states: list[State], leased: bool, doubtful: bool
) -> None:
    pending = entry(EntryState.PENDING, due=NOW)
    taken = batch_entry.lease(pending, [ended(state) for state in states], THEIRS, 30.0, NOW)
    assert (taken is not None) is leased
    if taken is not None:
        assert (taken.doubtful, taken.attempt, taken.token) == (doubtful, 2, THEIRS)


def test_a_batch_that_carries_events_without_an_id_is_not_over_with_its_items() -> None:
    _, made, _ = batch_entry.store([claimed()], None, offer()._replace(unkeyed=True), NOW)
    assert made is not None
    taken = batch_entry.lease(made, [ended(State.COMPLETED)], THEIRS, 30.0, NOW)
    assert taken is not None
    assert taken.doubtful
    assert taken.unkeyed


def test_what_is_not_due_is_nobodys() -> None:
    waiting = entry(EntryState.PENDING, due=NOW + 1)
    assert batch_entry.lease(waiting, [ended(State.STORED)], THEIRS, 30.0, NOW) is None


DELIVERED = [
    # claims, the entry's token, whether any changed, whether that was late
    ([ended(State.STORED)] * 3, OURS, True, False),
    ([ended(State.STORED)] * 3, THEIRS, True, True),
    ([ended(State.STORED), None, ended(State.COMPLETED)], OURS, True, False),
    ([claimed(THEIRS), ended(State.COMPLETED), ended(State.COMPLETED)], THEIRS, True, True),
    ([ended(State.COMPLETED)] * 3, OURS, False, False),
]


@pytest.mark.parametrize(("claims", "token", "changed", "late"), DELIVERED)
def test_a_delivery_completes_all_items_whoever_has_them_and_closes_the_entry(
    claims: list[Claim | None], token: int, changed: bool, late: bool
) -> None:
    after, closed, settled = batch_entry.conclude(
        claims, entry(token=token, attempt=4), conclusion(EntryEnding.DELIVER), NOW
    )
    assert settled == Settled(changed, late)
    assert [c and c.state for c in after] == [State.COMPLETED] * 3
    assert closed is not None
    assert closed.state is EntryState.DELIVERED
    for before, now in zip(claims, after, strict=True):
        if before is None or before.state is not State.COMPLETED:
            assert now is not None
            assert now.attempt == 4


def test_an_item_whose_row_is_gone_is_brought_back_as_what_it_was() -> None:
    after, _, _ = batch_entry.conclude(
        [None, None, None], entry(), conclusion(EntryEnding.DELIVER), NOW
    )
    assert [c and (c.event_id, c.fingerprint) for c in after] == [
        ("item_0", 0), ("item_1", 1), ("item_2", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ending", "state"),
    [(EntryEnding.RETRY, EntryState.PENDING), (EntryEnding.BURY, EntryState.DEAD)],
)
def test_an_attempt_without_success_is_the_entrys_alone(
    ending: EntryEnding, state: EntryState
) -> None:
    claims = [ended(State.STORED)] * 3
    after, kept, settled = batch_entry.conclude(claims, entry(), conclusion(ending), NOW)
    assert (after, settled) == (claims, Settled(True, False))
    assert kept is not None
    assert kept.state is state
