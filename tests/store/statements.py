"""The statements with their arguments, for tests that run them by hand."""

from __future__ import annotations

from typing import Any

from asyncpg.pgproto.pgproto import UUID

from gateway.core.claim import Ask
from gateway.core.inbox import Offer
from gateway.store.deliveries import LETTERS, all_columns, whole
from gateway.store.queries import read

CLAIMS = {name: statement.sql for name, statement in read("claims.sql").items()}
INBOX = {name: statement.sql for name, statement in read("inbox.sql").items()}
WAIT = "100ms"


def arrival(*asks: Ask, wait: str = WAIT) -> tuple[Any, ...]:
    return (
        CLAIMS["arrive"],
        [UUID(ask.key.digest) for ask in asks],
        [1 for _ in asks],
        [ask.token for ask in asks],
        [ask.lease for ask in asks],
        [bytes([ask.fingerprint]) for ask in asks],
        [ask.key.event_id for ask in asks],
        wait,
    )


def take_over(ask: Ask, attempt: int, state: bytes, wait: str = WAIT) -> tuple[Any, ...]:
    return (
        CLAIMS["take_over"],
        [UUID(ask.key.digest)],
        [attempt],
        [state],
        [ask.token],
        [ask.lease],
        [bytes([ask.fingerprint])],
        [ask.key.event_id],
        wait,
    )


def ending(ask: Ask, how: bytes, wait: str = WAIT) -> tuple[Any, ...]:
    return CLAIMS["settle"], [UUID(ask.key.digest)], [ask.token], [how], wait


def completion(ask: Ask, wait: str = WAIT) -> tuple[Any, ...]:
    return (
        CLAIMS["complete"],
        [UUID(ask.key.digest)],
        [1],
        [ask.token],
        [bytes([ask.fingerprint])],
        [ask.key.event_id],
        wait,
    )


def storing(offer: Offer, wait: str = WAIT) -> tuple[Any, ...]:
    return (
        INBOX["store"],
        [UUID(offer.key.digest)],
        [offer.token],
        [bytes([offer.fingerprint])],
        [whole(offer.key.event_id)],
        [LETTERS[offer.state]],
        [offer.lease],
        [offer.doubtful],
        *all_columns([offer], [True]),
        wait,
    )
