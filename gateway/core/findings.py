"""Findings: what the notes of a route in `observe` say about its key, and about enforcing it.

    delivery_id    ids hardly ever repeat while bodies do: the id is new with every delivery, and
                   nothing would be recognised
    business_id    ids repeat with other bodies: it names something that several events are about,
                   and all but the first would be swallowed
    no_id          nothing is where the route looks, and nothing would be protected
    conflicting    two ids in one delivery: each of these would be refused
    unsigned       signatures that would be refused: another secret, or another scheme
    short_promise  a duplicate older than the retention has to be at least

That a key is wrong shows at once. That it is right shows only once enough has come again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from gateway.core.observing import MARKED, UNCHECKED, Observed, What
from gateway.core.retention import Shape
from gateway.core.route import OnMissingId, OnStoreDown, Route

# One may be a person who tried something by hand, and five are no accident.
A_HABIT = 5
# Less than one in twenty is another kind of delivery, and no mistake of the key's.
A_SHARE = 20
# Of a right key's events some are sent again with their id; a wrong one's never are, but for the
# odd delivery that a network repeats.
HARDLY_EVER = 10
# Attempts of one event, on the average. Where a body has more ids than that, bodies are all alike
# and say nothing about events.
ALIKE = 5
# So many repeats, of a day at least: a provider's first retries come within the hour, and a key
# that is right for those may be wrong for what is redriven.
ENOUGH_REPEATS = 20
ENOUGH_SECONDS = 86_400.0


class Kind(StrEnum):
    """What is wrong."""

    DELIVERY_ID = "delivery_id"
    BUSINESS_ID = "business_id"
    NO_ID = "no_id"
    CONFLICTING = "conflicting"
    UNSIGNED = "unsigned"
    SHORT_PROMISE = "short_promise"


class Standing(StrEnum):
    """How it stands with the key."""

    NOTHING = "nothing"
    """No delivery was noted."""
    PASSES = "passes"
    """The route has no key, on purpose."""
    WRONG = "wrong"
    EARLY = "early"
    """Nothing wrong so far, and too little came again to say that it is right."""
    RIGHT = "right"


class Finding(NamedTuple):
    """Something that is wrong, or may be."""

    kind: Kind
    sure: bool
    """False for a first sign."""
    number: int
    of: int
    """Among how many of their like."""
    example: str | None
    detail: str
    """Where, or which; empty for nothing, and for the items of batches."""


@dataclass(frozen=True, slots=True)
class Enforced:
    """What `forward` would have done, in deliveries."""

    forwarded: int
    """For the first time."""
    again: int
    """Forwarded once more: earlier attempts had not succeeded."""
    marked: int
    """Of those: marked, for an earlier attempt may have had its effect."""
    answered: int
    """By the gateway, without a forward."""
    waited: int
    """For another delivery's result, instead of running beside it."""
    unprotected: int
    """Forwarded without a claim: no id, or no store."""
    refused: dict[int, int]
    """By status."""
    passed: int
    batches: dict[str, int]
    """By what their events are together; none of the above."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What is to be said about a route's key."""

    standing: Standing
    findings: tuple[Finding, ...]
    repeats: int
    """How often an id came again, for whatever reason."""
    seconds: float
    """From the first note to the latest."""


def judge(observed: Observed, route: Route) -> Judged:
    """What the notes say."""
    looked_for = (_delivery_id, _business_id, _no_id, _conflicting, _unsigned)
    found = [one for look in looked_for if (one := look(observed)) is not None]
    if (short := _short_promise(observed, route)) is not None:
        found.append(short)
    repeats, seconds = _repeats(observed), observed.until - observed.since
    if not observed.deliveries:
        standing = Standing.NOTHING
    elif any(one.sure for one in found):
        standing = Standing.WRONG
    elif route.pass_through is not None:
        standing = Standing.PASSES
    elif repeats < ENOUGH_REPEATS or seconds < ENOUGH_SECONDS:
        standing = Standing.EARLY
    else:
        standing = Standing.RIGHT
    return Judged(standing, tuple(found), repeats, seconds)


def enforced(observed: Observed, route: Route) -> Enforced:
    """What `forward` would have made of these deliveries."""
    unkeyed, bypassed = observed.number(What.UNKEYED), observed.number(What.BYPASSED)
    unsigned = observed.by_detail(What.UNSIGNED)
    unchecked = unsigned.pop(UNCHECKED, 0)
    refuses_missing = route.missing_id is OnMissingId.REFUSE
    waits_for_store = route.on_store_down is OnStoreDown.REFUSE
    refused = {
        400: observed.number(What.CONFLICTING) + (unkeyed if refuses_missing else 0),
        401: sum(unsigned.values()),
        503: unchecked + (bypassed if waits_for_store else 0),
    }
    again = observed.by_detail(What.AGAIN)
    return Enforced(
        forwarded=observed.number(What.NEW),
        again=sum(again.values()),
        marked=again.get(MARKED, 0),
        answered=observed.number(What.DURABLE),
        waited=observed.number(What.CONCURRENT),
        unprotected=(0 if refuses_missing else unkeyed) + (0 if waits_for_store else bypassed),
        refused={status: number for status, number in refused.items() if number},
        passed=observed.number(What.PASSED),
        batches=observed.by_detail(What.BATCH),
    )


def duplicates(observed: Observed) -> dict[str, int]:
    """By shape; without the items of batches."""
    durable, concurrent = observed.by_detail(What.DURABLE), observed.by_detail(What.CONCURRENT)
    by_operation = concurrent.pop(Shape.OPERATION.value, 0)
    found = {
        Shape.CONCURRENT: sum(concurrent.values()),
        Shape.OPERATION: by_operation + durable.get(Shape.OPERATION.value, 0),
        Shape.RETRY: durable.get(Shape.RETRY.value, 0),
        Shape.REDRIVE: durable.get(Shape.REDRIVE.value, 0),
    }
    return {shape.value: number for shape, number in found.items() if number}


def _of_one_event(observed: Observed) -> int:
    """How many deliveries and items met a claim of their own id, and not only of its operation."""
    items = observed.by_detail(What.ITEM)
    met = sum(
        one.number
        for one in observed.sums
        if one.what in (What.DURABLE, What.CONCURRENT) and one.detail != Shape.OPERATION.value
    )
    return met + items.get(What.DURABLE, 0) + items.get(What.CONCURRENT, 0)


def _repeats(observed: Observed) -> int:
    again = observed.number(What.AGAIN) + observed.by_detail(What.ITEM).get(What.AGAIN, 0)
    return _of_one_event(observed) + again


def _delivery_id(observed: Observed) -> Finding | None:
    whole, but_id = observed.number(What.SAME_BODY), observed.number(What.SAME_BUT_ID)
    number, bodies = whole + but_id, observed.by_detail(What.BODY)
    alike = sum(bodies.values()) > bodies.get("", 0) * ALIKE
    if not number or alike or _repeats(observed) * HARDLY_EVER > number:
        return None
    what = What.SAME_BODY if whole >= but_id else What.SAME_BUT_ID
    of = number + _repeats(observed)
    sure, example = number >= A_HABIT, observed.example(what)
    return Finding(Kind.DELIVERY_ID, sure, number, of, example, what.value)


def _business_id(observed: Observed) -> Finding | None:
    number, of = observed.number(What.MISMATCH), _of_one_event(observed)
    example = observed.example(What.MISMATCH)
    return _of_a_share(Kind.BUSINESS_ID, number, of, example=example)


def _no_id(observed: Observed) -> Finding | None:
    places, items = observed.by_detail(What.UNKEYED), observed.by_detail(What.ITEM)
    without = items.pop(What.UNKEYED, 0)
    number = sum(places.values()) + without
    single = (What.NEW, What.AGAIN, What.DURABLE, What.CONCURRENT, What.UNKEYED, What.CONFLICTING)
    of = observed.number(*single) + sum(items.values()) + without
    return _of_a_share(Kind.NO_ID, number, of, detail=next(iter(places), ""))


def _conflicting(observed: Observed) -> Finding | None:
    places = observed.by_detail(What.CONFLICTING)
    number, of = sum(places.values()), observed.deliveries
    return _of_a_share(Kind.CONFLICTING, number, of, detail=next(iter(places), ""))


def _unsigned(observed: Observed) -> Finding | None:
    flaws = observed.by_detail(What.UNSIGNED)
    flaws.pop(UNCHECKED, None)
    number, of = sum(flaws.values()), observed.deliveries - observed.number(What.PASSED)
    found = _of_a_share(Kind.UNSIGNED, number, of, detail=next(iter(flaws), ""))
    # What is open to the world is tried by strangers, too.
    return found if found is None else found._replace(sure=found.sure and number * 2 > of)


def _of_a_share(
    kind: Kind, number: int, of: int, *, example: str | None = None, detail: str = ""
) -> Finding | None:
    if not number:
        return None
    sure = number >= A_HABIT and number * A_SHARE >= of
    return Finding(kind, sure, number, of, example, detail)


def _short_promise(observed: Observed, route: Route) -> Finding | None:
    oldest, floor = observed.oldest, route.floor
    if oldest is None or floor is None or oldest.greatest <= floor.total_seconds():
        return None
    return Finding(Kind.SHORT_PROMISE, True, 1, 1, oldest.example, oldest.detail)
