"""Each rule's cases: what is otherwise than in the scrape, and which alerts fire when.

Values are promtool's: `0x4 1x20` is a 0 and four more, then a 1 and twenty more, one each `every`;
`_x5 1x20` is nothing five times, and no more, and then as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FIRST, SECOND = "gateway-0:8081", "gateway-1:8081"
DAY = 86400
FLOOR = 33 * DAY

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """What some series are instead: a value for all times, or promtool's notation, by the minute.

    Those of all gateways, unless an `instance` is among the labels.
    """

    series: str
    labels: Labels
    values: float | str

    is_new: bool = False
    """A series that was not scraped."""

    def concerns(self, name: str, labels: Labels) -> bool:
        return name == self.series and self.labels.items() <= labels.items()


def change(series: str, values: float | str, **labels: str) -> Change:
    """As in `change("store_up", 0)`."""
    return Change(_full(series), labels, values)


def new(series: str, values: float | str, **labels: str) -> Change:
    """One more series of all gateways, with all of its labels."""
    return Change(_full(series), labels, values, is_new=True)


def _full(series: str) -> str:
    return series if series == "up" or series.startswith("process_") else f"dedup_{series}"


@dataclass(frozen=True, slots=True)
class Case:
    """One story. Without `fires`, nothing may fire at any of the times."""

    story: str
    changes: Sequence[Change]
    alert: str = ""
    fires: Sequence[str] = ()
    silent: Sequence[str] = ()
    route: str | None = "orders"
    instance: str | None = None
    every: str = "1m"
    type_: str | None = None
    only: str | None = None
    """The rules that fire, where the others must not: `any gateway` or `this file`."""

    @property
    def labels(self) -> dict[str, str]:
        told = {
            "alertname": self.alert,
            "route": self.route,
            "instance": self.instance,
            "event_type": self.type_,
        }
        return {name: value for name, value in told.items() if value is not None}


def counted(alert: str, story: str, series: str, window: str, **labels: str) -> Case:
    """A counter that grows by one on one gateway, once, a while after the beginning."""
    every, before, after, long_after = {
        "10m": ("1m", "10m", "12m", "24m"),
        "1h": ("5m", "50m", "1h", "2h5m"),
        "1d": ("1h", "10h", "12h", "36h"),
    }[window]
    labels = {"route": "orders", "instance": SECOND, **labels}
    return Case(
        story,
        [change(series, "0x10 1x40", **labels)],
        alert,
        fires=[after],
        silent=[before, long_after],
        route=labels["route"],
        every=every,
    )


def stands(
    alert: str, story: str, after: str, *changes: Change, instance: str | None = None, **more: str
) -> Case:
    """Something that is so from the beginning, and lasts."""
    route = None if instance else more.get("route", "orders")
    return Case(story, changes, alert, fires=[after], route=route, instance=instance)


def quiet(story: str, *changes: Change, at: Sequence[str] = ("20m",), every: str = "1m") -> Case:
    """Something that is no reason to fire."""
    return Case(story, changes, silent=at, every=every)
