"""What was sent and what the consumer did, as numbers, and whether that is what was promised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table

from gateway.demo.provider import Sent

DIRECTLY = "directly"
THROUGH = "gateway"


@dataclass(frozen=True, slots=True)
class Finding:
    """One shape in one run."""

    shape: str
    run: str
    events: int
    deliveries: int
    effects: int
    doubled: int
    """Events with two effects or more."""
    lost: int
    """Events without any."""
    unanswered: int
    """Events that the provider never got a 2xx for."""

    @property
    def is_clean(self) -> bool:
        """Each event had exactly one effect."""
        return self.doubled == 0 and self.lost == 0


def find(
    shape: str, run: str, events: tuple[str, ...], effects: Mapping[str, int], sent: Sent
) -> Finding:
    """Compare what was sent with the consumer's own counts."""
    counts = [effects.get(event, 0) for event in events]
    return Finding(
        shape=shape,
        run=run,
        events=len(events),
        deliveries=sent.deliveries,
        effects=sum(counts),
        doubled=sum(count > 1 for count in counts),
        lost=sum(count == 0 for count in counts),
        unanswered=len(sent.failed),
    )


def problems(findings: list[Finding]) -> list[str]:
    """What is not as it should be, a sentence each; empty when the demo shows what it is for.

    Directly, each shape must produce doubles, or the script proves nothing. Through the gateway,
    each event has exactly one effect, and its provider is told so.
    """
    found = []
    for finding in findings:
        where = f"{finding.shape} ({finding.run})"
        if finding.run == DIRECTLY:
            if finding.doubled == 0:
                found.append(f"{where}: no doubles, so this run shows nothing")
            continue
        if finding.doubled:
            found.append(f"{where}: {finding.doubled:,} events had two effects or more")
        if finding.lost:
            found.append(f"{where}: {finding.lost:,} events had none")
        if finding.unanswered:
            found.append(f"{where}: {finding.unanswered:,} events were never answered with success")
    return found


def table(directly: list[Finding], through: list[Finding]) -> Table:
    """For people: each shape's two runs, one below the other."""
    shown = Table(
        box=SIMPLE_HEAD,
        title="What was sent, and what the consumer did",
        caption=(
            "Doubled: events with two effects or more. Lost: events without any. Sent differs "
            "between the runs because the provider sends again what is not answered in time, "
            "and the gateway answers retries sooner."
        ),
        caption_justify="left",
    )
    shown.add_column("Shape", no_wrap=True)
    shown.add_column("Run", no_wrap=True)
    for name in ("Events", "Sent", "Effects", "Doubled", "Lost"):
        shown.add_column(name, justify="right", no_wrap=True)
    for pair in zip(directly, through, strict=True):
        for finding in pair:
            shown.add_row(
                finding.shape if finding is pair[0] else "",
                finding.run,
                f"{finding.events:,}",
                f"{finding.deliveries:,}",
                f"{finding.effects:,}",
                _coloured(finding.doubled),
                _coloured(finding.lost),
            )
        shown.add_section()
    return shown


def _coloured(count: int) -> str:
    return f"[bold red]{count:,}[/]" if count else "[green]0[/]"
