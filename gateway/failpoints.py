"""Fail points: places where a test makes this process die or stop, named after the step just taken.

`DEDUP_FAILPOINT=after_claim:kill` sends SIGKILL to ourselves at the first reach of that step,
`forwarding:stop:3` SIGSTOP at the third. Unset, as always in production, a step is a call that does
nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

STEPS = (
    "after_claim", "before_send", "forwarding", "after_answer", "after_settle",
    "after_accept", "after_lease", "after_store", "after_conclude",
)  # fmt: skip
_ACTIONS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def parse(env: Mapping[str, str]) -> Callable[[str], None]:
    """The function to call at each step. Raises ValueError that says what to write instead."""
    text = env.get("DEDUP_FAILPOINT")
    if text is None:
        return none
    name, _, rest = text.partition(":")
    action, _, count = rest.partition(":")
    if name not in STEPS or action not in _ACTIONS or not (count or "1").isdigit():
        raise ValueError(
            f"DEDUP_FAILPOINT is {text!r}: write STEP:ACTION or STEP:ACTION:N with a step of "
            f"{', '.join(STEPS)} and kill or stop"
        )
    left = int(count or 1)

    def at(step: str) -> None:
        nonlocal left
        if step == name:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), _ACTIONS[action])

    return at


def none(step: str) -> None:
    """No fail point."""
