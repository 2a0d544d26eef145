"""Things done to many entries: in batches, each as one statement with its record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.core.operating import Action, Refusal
from gateway.operating.refused import sentence, why_not
from gateway.store.operator import By, Desk, Filter, Locked, Seen

# 40,000 took 4 s to redrive and 7 s to drop on a busy machine of two cores. Half of the statements
# took up to 65 ms; a delivery waits for somebody's lock for 100 ms before it leaves its batch.
BATCH = 500
# Keys are looked up for so many at once.
PAGE = 10_000


@dataclass(slots=True)
class Tally:
    """What became of the entries so far."""

    done: int = 0
    refused: Counter[Refusal] = field(default_factory=Counter)

    @property
    def handled(self) -> int:
        """Done and refused together."""
        return self.done + self.refused.total()


@dataclass(frozen=True, slots=True)
class Deed:
    """What is to be done, and by whom."""

    action: Action
    by: By
    told: Callable[[int], None] = lambda _: None
    """How many have been handled."""


async def act_on_all(desk: Desk, wanted: Filter, deed: Deed, tally: Tally) -> None:
    """Every entry that is meant, once. `tally` is true also if it breaks off."""
    async for page in desk.pages(wanted, PAGE):
        for start in range(0, len(page), BATCH):
            await act_on(desk, page[start : start + BATCH], deed, tally)
            deed.told(tally.handled)


async def act_on(desk: Desk, entries: Sequence[Seen], deed: Deed, tally: Tally) -> None:
    """These entries; what others have locked is tried in ever smaller parts."""
    try:
        done = await desk.act(deed.action, entries, deed.by)
    except Locked:
        if len(entries) == 1:
            tally.refused[Refusal.LOCKED] += 1
            return
        half = len(entries) // 2
        await act_on(desk, entries[:half], deed, tally)
        await act_on(desk, entries[half:], deed, tally)
        return
    tally.done += len(done)
    if missed := [entry.key for entry in entries if entry.key not in done]:
        tally.refused.update(why_not(deed.action, known) for known in await desk.known(missed))


_PAST = {
    Action.REDRIVE: "redriven",
    Action.DROP: "dropped",
    Action.COMPLETE: "completed",
    Action.RELEASE: "released",
}


def as_text(action: Action, tally: Tally) -> str:
    """What was done, and what was not and why."""
    lines = [f"{_PAST[action]:<12}{tally.done:,}"]
    if tally.refused:
        lines.append(f"{'refused':<12}{tally.refused.total():,}")
    for refusal, count in tally.refused.most_common():
        lines.append(f"  {refusal.value:<10}{count:,}: {sentence(refusal)}")
    return "\n".join(lines)


def as_dict(action: Action, tally: Tally) -> dict[str, Any]:
    """The same as JSON has it."""
    refused = {refusal.value: count for refusal, count in tally.refused.items()}
    return {"action": action.value, "done": tally.done, "refused": refused}
