"""What races are judged by."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Witness:
    """What everybody saw of one key, for the rules that hold over all of it."""

    wins: list[tuple[int, bool, float, float]] = field(default_factory=list)
    """Attempt, doubt, when it was asked for, when it was told."""
    released: dict[int, bool] = field(default_factory=dict)
    """By attempt: with doubt or without."""
    completed: list[float] = field(default_factory=list)


def check(witness: Witness, lease: float) -> None:
    """All that holds of one key, whoever raced for it. `lease`: seconds."""
    attempts = sorted(attempt for attempt, *_ in witness.wins)
    assert attempts == list(range(1, len(attempts) + 1)), "one holder per attempt"
    unmarked = [attempt for attempt, doubtful, *_ in witness.wins if not doubtful]
    marked = [attempt for attempt, doubtful, *_ in witness.wins if doubtful]
    assert not marked or not unmarked or max(unmarked) < min(marked), "doubt is sticky"
    doubts = [attempt for attempt, doubtful in witness.released.items() if doubtful]
    assert not doubts or not any(attempt > min(doubts) for attempt in unmarked)
    told = {attempt: (began, at) for attempt, _, began, at in witness.wins}
    for attempt, (began, _) in told.items():
        if attempt + 1 in told and attempt not in witness.released:
            assert told[attempt + 1][1] >= began + lease, "a live lease was taken over"
    for _, _, began, _ in witness.wins:
        assert all(began < done for done in witness.completed), "won after it was completed"
