"""Marking: what becomes of each row that says an event was processed, and how that is told."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

from gateway.core.claim import State
from gateway.core.durations import format_duration
from gateway.operating.composing import Composer, NoKey
from gateway.operating.formats import Row
from gateway.operating.story import wrapped
from gateway.operating.wording import several, visible
from gateway.sources import Unusable
from gateway.store.backfill import Processed

# Rows of one transaction. A delivery of one of its events waits for its end; if that takes longer
# than 100 ms, it is asked for again by itself. On two cores that three times as much wanted to run
# on, half of the transactions took 50 ms and all up to 100; of 2,000 rows, 60 to 85 and up to 160.
BATCH = 1_000
# So many rows that cannot be used are named to a person, and to a program.
EXAMPLES, MOST_NAMED = 3, 1_000
_ABSENT = "where they have it, no delivery meets these keys"
# Seconds. Clocks differ by some; what is further ahead was not processed yet.
AHEAD = 60.0


class Mark(Protocol):
    """What is done with a batch."""

    async def __call__(
        self, events: Sequence[Processed], rows: int, *, ended: bool
    ) -> Mapping[bytes, State]:
        """Which of them had claims, and in which state. `rows`: so many are done with these."""
        ...


class Unused(NamedTuple):
    """A row that cannot be used."""

    number: int
    why: str


class Outcomes:
    """What became of each key, so that one that comes again counts once. Eight bytes a row."""

    def __init__(self) -> None:
        self._kept: dict[State | None, list[array[int]]] = {}

    def add(self, key: bytes, was: State | None) -> None:
        """`was`: the state of the claim that was there; None where there was none."""
        buckets = self._kept.get(was)
        if buckets is None:
            buckets = self._kept[was] = [array("Q") for _ in range(256)]
        buckets[key[0]].append(int.from_bytes(key[1:9], "big"))

    def distinct(self) -> Counter[State | None]:
        """How many keys; one that was marked is found there when it comes again."""
        counted: Counter[State | None] = Counter()
        order = sorted(self._kept, key=lambda was: was is not None)
        for number in range(256):
            seen: set[int] = set()
            for was in order:
                fresh = set(self._kept[was][number]) - seen
                counted[was] += len(fresh)
                seen |= fresh
        return counted


@dataclass(slots=True)
class Tally:
    """What became of the rows so far."""

    before: int = 0
    """Done by an earlier run."""
    rows: int = 0
    """Of this run."""
    keyed: int = 0
    outcomes: Outcomes = field(default_factory=Outcomes)
    too_old: int = 0
    untimed: int = 0
    unusable: int = 0
    named: list[Unused] = field(default_factory=list)
    """The first of those."""
    absent: tuple[str, ...] = ()
    """Places that deliveries are taken to lack, since no row has a column for them."""

    @property
    def is_found_wrong(self) -> bool:
        """Whether a person has to look at it. Of rows that are all too old nothing was marked."""
        return bool(self.unusable or (self.too_old and not self.keyed and not self.before))


@dataclass(frozen=True, slots=True)
class Terms:
    """What decides about a row, beside its values."""

    unit: str
    """What its number counts."""
    retention: timedelta
    clock: Callable[[], float]
    """The store's, in epoch seconds."""


class Marking:
    """One run over the rows of a source. `tally` is true also if it breaks off."""

    def __init__(self, composer: Composer, terms: Terms, tally: Tally) -> None:
        self._composer = composer
        self._terms = terms
        self._tally = tally

    async def run(self, rows: AsyncIterable[Row], mark: Mark, told: Callable[[], None]) -> None:
        """Until the rows end. `told` after each batch.

        Raises Unusable where the first row shows that none has what it takes.
        """
        tally = self._tally
        skipped, batch, pending = 0, dict[bytes, Processed](), Tally()
        async for row in rows:
            if skipped < tally.before:
                skipped += 1
                continue
            pending.rows += 1
            self._take(row, batch, pending)
            if pending.rows == BATCH:
                await self._flush(batch, pending, mark, ended=False)
                batch, pending = {}, Tally()
                told()
        await self._flush(batch, pending, mark, ended=True)
        told()

    async def _flush(
        self, batch: Mapping[bytes, Processed], pending: Tally, mark: Mark, *, ended: bool
    ) -> None:
        tally = self._tally
        done = tally.before + tally.rows + pending.rows
        there = await mark(list(batch.values()), done, ended=ended)
        for key in batch:
            tally.outcomes.add(key, there.get(key))
        tally.rows += pending.rows
        tally.keyed += pending.keyed
        tally.too_old += pending.too_old
        tally.untimed += pending.untimed
        tally.unusable += pending.unusable
        tally.named += pending.named[: MOST_NAMED - len(tally.named)]
        tally.absent = self._composer.absent

    def _take(self, row: Row, batch: dict[bytes, Processed], pending: Tally) -> None:
        now = self._terms.clock()
        key = self._composer.compose(row)
        if isinstance(key, NoKey):
            if key.lacks_column and self._is_first(pending):
                raise Unusable(f"{self._terms.unit} {row.number}: {key.why}")
            self._refuse(row, key.why, pending)
            return
        at = self._composer.time(row)
        if isinstance(at, NoKey):
            self._refuse(row, at.why, pending)
        elif at is not None and at > now + AHEAD:
            self._refuse(row, "its time is in the future", pending)
        elif at is not None and at < now - self._terms.retention.total_seconds():
            pending.too_old += 1
        else:
            pending.untimed += at is None
            pending.keyed += 1
            event = Processed(key, now if at is None else min(at, now))
            known = batch.setdefault(key.digest, event)
            if event.at < known.at:
                batch[key.digest] = event

    def _is_first(self, pending: Tally) -> bool:
        """Whether no row had what it takes yet."""
        tally = self._tally
        return not (tally.before or tally.keyed or tally.too_old or pending.keyed + pending.too_old)

    def _refuse(self, row: Row, why: str, pending: Tally) -> None:
        pending.unusable += 1
        if len(pending.named) < MOST_NAMED:
            pending.named.append(Unused(row.number, visible(why)))


def as_text(tally: Tally, unit: str, retention: timedelta, *, dry: bool, ended: bool) -> str:
    """What was done, or would be, and what was not and why. `unit`: what numbers of rows count."""
    title = "would mark" if dry else "marked"
    rows = [*_done(tally, title), *_not_done(tally, unit, retention)]
    if not ended:
        rows.append(("broken off", "the same command does the rest"))
    return "\n".join(line for row in rows for line in wrapped(*row))


def _done(tally: Tally, title: str) -> Iterator[tuple[str, str]]:
    counted = tally.outcomes.distinct()
    marked = counted.pop(None, 0)
    yield title, several(marked, "event")
    if tally.before:
        rows = several(tally.before, "row")
        yield "before", f"{rows}, by an earlier run; --from-start reads them again"
    if there := counted.total():
        states = ", ".join(f"{number:,} {state}" for state, number in counted.most_common())
        yield "there", f"{there:,} had a claim, which stays as it is: {states}"
    if repeated := tally.keyed - marked - there:
        yield "repeated", f"{several(repeated, 'row')} of an event that came before"
    if tally.untimed:
        yield "no time", f"{several(tally.untimed, 'row')}, kept from now on"


def _not_done(tally: Tally, unit: str, retention: timedelta) -> Iterator[tuple[str, str]]:
    if tally.absent:
        places = " and ".join(tally.absent)
        yield "assumed", f"deliveries have no {places}, as there is no such column: {_ABSENT}"
    if tally.too_old:
        kept = format_duration(retention)
        all_ = "" if tally.keyed or tally.before or tally.unusable else "all of them, "
        yield "too old", f"{all_}{several(tally.too_old, 'row')}: claims are kept for {kept}"
    if tally.unusable:
        yield "unusable", several(tally.unusable, "row")
        for one in tally.named[:EXAMPLES]:
            yield "", f"{unit} {one.number}: {one.why}"
    if (more := tally.unusable - EXAMPLES) > 0:
        yield "", f"and {more:,} more; --json names the first {MOST_NAMED:,}"


def as_dict(tally: Tally, *, dry: bool, ended: bool) -> dict[str, Any]:
    """The same as JSON has it."""
    counted = tally.outcomes.distinct()
    marked = counted.pop(None, 0)
    return {
        "action": "backfill",
        "dry_run": dry,
        "ended": ended,
        "rows": tally.rows,
        "rows_before": tally.before,
        "marked": marked,
        "there": {state.value: number for state, number in counted.items() if state is not None},
        "repeated": tally.keyed - marked - counted.total(),
        "without_time": tally.untimed,
        "too_old": tally.too_old,
        "unusable": tally.unusable,
        "unusable_rows": [one._asdict() for one in tally.named],
        "assumed_absent": list(tally.absent),
    }
