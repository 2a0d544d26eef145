"""The statements of the audit judge as its rules do."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from asyncpg.pgproto.pgproto import UUID

from gateway.core import auditing
from gateway.core.auditing import Against, Asked, Listed, Remembered, Standing, Terms
from gateway.core.claim import Claim, State
from gateway.core.purging import UNSAID
from gateway.store.audit import Answer, Found, Listing, Question, compare
from gateway.store.known import CLAIMS
from gateway.store.operator import Desk, desk
from tests.operating.rows import BILLING, ORDERS, TOKEN, Rows, key_of

PRINT = b"the recipe's pri"
BEGAN = 1_800_000_000
LEASE, RETENTION = 400.0, 30 * 86_400.0
# Claims of another time are counted whether they are listed or not.
OUTSIDE = (Standing.BEFORE, Standing.AFTER)


@dataclass(frozen=True)
class Event:
    """What is on both sides of one."""

    name: str
    claim: Claim | None
    route: int
    settled: int | None
    """In the row."""
    delivered: int | None
    """When its entry was."""
    actions: tuple[str, ...]
    times: tuple[float | None, ...]
    """Of its rows in the list."""

    @property
    def listed(self) -> Listed:
        dated = [at for at in self.times if at is not None]
        return Listed(len(self.times), min(dated, default=None), max(dated, default=None))

    @property
    def ended(self) -> int | None:
        return max((at for at in (self.settled, self.delivered) if at is not None), default=None)

    @property
    def dropped(self) -> bool:
        return self.actions[-1:] == ("drop",)


def near(dice: random.Random, corners: list[float]) -> int:
    """Mostly beside a time that decides something."""
    steps = (0, LEASE, -LEASE, UNSAID, -UNSAID, UNSAID + LEASE)
    return int(dice.choice(corners) + dice.choice(steps) + dice.choice((-1, 0, 1)))


def event(dice: random.Random, name: str, corners: list[float]) -> Event:
    claim, settled, delivered = None, None, None
    if dice.random() < 0.7:
        state = dice.choice([*State, State.COMPLETED, State.COMPLETED])
        attempt, seen = dice.choice((1, 1, 2)), near(dice, corners)
        held = state is State.CLAIMED
        marked = state is State.COMPLETED and attempt == 1 and dice.random() < 0.5
        claim = Claim(
            state,
            dice.random() < 0.5,
            attempt,
            seen,
            None if marked else 7,
            token=TOKEN if held else None,
            lease_until=BEGAN if held else None,
        )
        if state is State.COMPLETED and dice.random() < 0.5:
            settled = max(seen, near(dice, corners))
        if dice.random() < 0.3:
            delivered = max(seen, near(dice, corners))
    rows = dice.choice((0, 0, 1, 1, 2))
    times = tuple(near(dice, corners) if dice.random() < 0.8 else None for _ in range(rows))
    actions = tuple(dice.choices(("drop", "complete", "release"), k=dice.choice((0, 0, 1, 2))))
    route = dice.choice((ORDERS, ORDERS, ORDERS, BILLING))
    return Event(name, claim, route, settled, delivered, actions, times)


async def store(rows: Rows, events: list[Event], memory: Remembered) -> None:
    await rows.sql.execute("truncate dedup.claims, dedup.entries, dedup.actions, dedup.purges")
    await rows.sql.execute(
        "update dedup.routes set recipe = $1, born = to_timestamp($2::float8),"
        " since = to_timestamp($3::float8), retention = $4",
        PRINT, memory.born, memory.since, int(memory.retention),
    )  # fmt: skip
    if memory.cut_off is not None:
        await rows.sql.execute(
            "insert into dedup.purges (began, route, cut_off, purged, unresolved, who)"
            " values (now(), $1, to_timestamp($2::float8), 1, 0, 'a test')",
            ORDERS, memory.cut_off,
        )  # fmt: skip
    letters = {state: letter for letter, state in CLAIMS.items()}
    for one in events:
        key = UUID(key_of(one.name))
        if one.claim is not None:
            forwarded = one.claim.state is State.COMPLETED and one.claim.fingerprint is not None
            said = None if forwarded and one.claim.attempt == 1 else one.claim.attempt
            letter = letters[one.claim.state]
            until = one.claim.lease_until if one.settled is None else one.settled
            await rows.sql.execute(
                "insert into dedup.claims"
                " (key, first_seen, route, state, fingerprint, token, until, attempt, event_id)"
                " values ($1, $2, $3, $4, $5, $6, to_timestamp($7::float8), $8, $9)",
                key, int(one.claim.first_seen), one.route,
                letter.upper() if one.claim.doubtful else letter, b"\x07", one.claim.token, until,
                said, one.name,
            )  # fmt: skip
        if one.delivered is not None:
            await rows.entry(one.name, state="d", claim=None)
            await rows.sql.execute(
                "update dedup.entries set settled = to_timestamp($2::float8) where key = $1",
                key, one.delivered,
            )  # fmt: skip
        for action in one.actions:
            await rows.sql.execute(
                "insert into dedup.actions (who, action, key, route) values ('alice', $1, $2, $3)",
                action, key, one.route,
            )  # fmt: skip


def expected(
    events: list[Event], terms: Terms
) -> tuple[Counter[str], Counter[str], set[tuple[str, str]]]:
    """Of the list, of claims that it lacks, and what is found: kind and event."""
    of_list: Counter[str] = Counter()
    of_claims: Counter[str] = Counter()
    found = set()
    kinds = auditing.KINDS[terms.against]
    for one in events:
        if one.times:
            standing = auditing.of_listed(one.listed, one.claim, terms)
            of_list[standing] += 1
            found |= {(standing.value, one.name)} if standing in kinds else set()
            if auditing.is_double(one.listed, terms):
                of_list[Standing.DOUBLE] += 1
                of_list["announced"] += one.claim is not None and one.claim.doubtful
                found.add(("double", one.name))
        if one.claim is not None and one.route == ORDERS:
            standing = auditing.of_claim(one.claim, one.ended, terms, dropped=one.dropped)
            if standing in OUTSIDE or not one.times:
                of_claims[standing] += 1
                found |= {(standing.value, one.name)} if standing in kinds else set()
    return of_list, of_claims, found


async def judged(
    at: Desk, events: list[Event], against: Against, asked: Asked
) -> tuple[Answer, list[Found]]:
    found: list[Found] = []
    question = Question(
        "orders", PRINT, against, asked, partial=False, began=BEGAN, retention=1.0, lease=LEASE,
        sample=None, seed=1,
    )  # fmt: skip
    listing = [
        Listing(key_of(one.name), one.name, moment, line)
        for line, one in enumerate(events)
        for moment in one.times
    ]
    return await compare(at, question, listing, found.append), found


@pytest.mark.parametrize("against", Against)
async def test_statements_judge_random_events_as_the_rules_do(
    database: str, rows: Rows, against: Against
) -> None:
    told: Counter[str] = Counter()
    for seed in range(12):
        dice = random.Random(seed)
        since, until = BEGAN - 20_000.0, BEGAN - dice.choice((0.0, 9_000.0))
        born = BEGAN - dice.choice((15_000.0, 40_000.0))
        memory = Remembered(
            born=born,
            since=dice.choice((born, BEGAN - 12_000.0)),
            oldest=None,
            cut_off=dice.choice((None, BEGAN - 14_000.0)),
            retention=dice.choice((13_000.0, RETENTION)),
        )
        corners = [since, until, BEGAN, born, BEGAN - 14_000.0, BEGAN - 13_000.0]
        events = [event(dice, f"evt_{number}", corners) for number in range(250)]
        await store(rows, events, memory)
        seen = [one.claim.first_seen for one in events if one.claim and one.route == ORDERS]
        asked = dice.choice(
            [Asked(since, until, False), Asked(None, None, False), Asked(None, None, True)]
        )
        async with desk(database) as at:
            answer, found = await judged(at, events, against, asked)
        dated = [moment for one in events for moment in one.times if moment is not None]
        whole = Listed(sum(len(one.times) for one in events), min(dated), max(dated))
        remembered = replace(memory, oldest=min(seen))
        agreed = auditing.terms(against, asked, remembered, whole, BEGAN, LEASE)
        assert answer.terms == agreed
        assert answer.listed == whole
        of_list, of_claims, wrong = expected(events, agreed)
        assert +Counter(answer.of_list) == +of_list
        assert +Counter(answer.of_claims) == of_claims
        assert {(one.kind, one.event_id) for one in found} == wrong
        assert len(found) == answer.total == len(wrong)
        told += of_list + of_claims
    of_effects = {Standing.LEAK, Standing.LOSS, Standing.MARKED, Standing.DOUBLE,
                  Standing.UNDECIDED, Standing.UNFINISHED, Standing.DROPPED}  # fmt: skip
    of_providers = {Standing.MISSING, Standing.UNKNOWN}
    never = of_providers if against is Against.EFFECTS else of_effects
    assert set(Standing) - never <= set(told)
