"""What a report counts, in words: the duplicates, and what enforcing would have done."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.core.batch import OnMixed
from gateway.core.findings import Enforced, duplicates
from gateway.core.observing import Observed, What
from gateway.core.retention import Shape
from gateway.core.route import Route
from gateway.operating.wording import several, span, visible


def of_duplicates(observed: Observed, route: Route) -> Iterator[str]:
    """How many came, and what became of them."""
    oldest, floor = observed.oldest, route.floor
    found = duplicates(observed)
    items = observed.by_detail(What.ITEM)
    if found or not items:
        yield ", ".join(f"{number:,} {shape}" for shape, number in found.items()) or "none"
    if Shape.CONCURRENT.value in found:
        yield "concurrent: beside the first one, or within milliseconds of its end"
    if oldest is not None:
        kept = (
            ""
            if floor is None
            else f"; the promise on file ends after {span(floor.total_seconds())}"
        )
        yield f"the oldest came {span(oldest.greatest)} after the first one{kept}"
    if items:
        counted = ", ".join(
            f"{number:,} {_ITEMS.get(kind, kind)}" for kind, number in items.items()
        )
        yield f"of the events in batches: {counted}"
    if again := observed.number(What.TAKEN_AGAIN):
        example = observed.example(What.TAKEN_AGAIN)
        as_for = "" if example is None else f", as for {visible(example)}"
        them = "of the events seen before" if items else "of them"
        yield f"the consumer took {again:,} {them} as well: what it did, it did twice{as_for}"


_ITEMS = {
    What.AGAIN.value: "once more after a failure",
    What.DURABLE.value: "seen before",
    What.CONCURRENT.value: "while another one was under way",
    What.UNKEYED.value: "without an id",
}


def of_enforcing(would: Enforced, route: Route) -> Iterator[str]:
    """What `forward` would have done."""
    marked = f", {would.marked:,} of them marked" if would.marked else ""
    told = {
        "forwarded": would.forwarded,
        f"forwarded once more after a failure{marked}": would.again,
        "answered by the gateway, and not forwarded": would.answered,
        "made to wait for another one's result, not to run beside it": would.waited,
        "forwarded unprotected: no id, or no store": would.unprotected,
        **{f"refused with {status}": number for status, number in would.refused.items()},
        "passed on: no events": would.passed,
    }
    for words, number in told.items():
        if number:
            yield f"{number:,} {words}"
    for kind, number in would.batches.items():
        yield f"{several(number, 'batch', 'batches')} {_batches(kind, route)}"


_BATCHES = {
    What.NEW.value: "forwarded",
    What.DURABLE.value: "answered by the gateway: all in them was seen",
    What.CONCURRENT.value: "made to wait for another one's result",
}
_MIXED = {
    OnMixed.FILTER: "forwarded without the events that were seen",
    OnMixed.WHOLE: "forwarded whole and marked, for some of their events were seen",
}


def _batches(kind: str, route: Route) -> str:
    if kind == "mixed" and route.batch is not None:
        return _MIXED[route.batch.on_mixed]
    return _BATCHES.get(kind, kind)
