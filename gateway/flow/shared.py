"""What all routes of a process share, and the spans that they keep to."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.document import Parse
from gateway.flow.bodies import Bodies
from gateway.flow.flights import Flights
from gateway.flow.load import Load
from gateway.flow.needs import (
    Claims,
    Clock,
    Counts,
    Dice,
    Failpoint,
    Inbox,
    Jitter,
    Replies,
    Room,
    Spawn,
)
from gateway.flow.observing import Observations
from gateway.flow.record import Recorder

# D2 allows two seconds in all; the rest is for reading the body's id and writing the answer.
ARRIVE_WITHIN = 1.8
# Long enough for another process's lease to be settled, short for providers that give up in
# minutes.
RETRY_AFTER = 5


@dataclass(frozen=True, slots=True)
class Shared:
    """What all routes of a process share."""

    claims: Claims
    inbox: Inbox
    room: Room
    replies: Replies
    bodies: Bodies
    load: Load
    flights: Flights
    recorder: Recorder
    observations: Observations
    counts: Counts
    clock: Clock
    epoch: Clock
    """Seconds since 1970, on this machine's clock: signatures have time stamps."""
    dice: Dice
    jitter: Jitter
    spawn: Spawn
    at: Failpoint
    parse: Parse
    log_deliveries: bool
