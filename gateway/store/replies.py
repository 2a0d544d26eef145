"""First replies, kept for routes that repeat them to duplicates."""

from __future__ import annotations

from collections.abc import Callable

from asyncpg.pgproto.pgproto import UUID

from gateway.core.event import EventKey
from gateway.core.outcome import Reply
from gateway.core.route import REPLAY_LIMIT
from gateway.store.batch import Batch, Group
from gateway.store.queries import read
from gateway.store.session import Sessions

# A reply is worth keeping, not worth waiting for.
WITHIN = 1.0

Keeps = list[Group[tuple[Reply, bool], None]]
Recalls = list[Group[None, Reply | None]]


class Replies:
    """The replies table."""

    def __init__(self, sessions: Sessions, clock: Callable[[], float]) -> None:
        self._sessions = sessions
        self._statements = read("replies.sql")
        self._keeps = Batch(self._keep, clock, lanes=1, apart=Batch(self._keep, clock, lanes=1))
        self._recalls = Batch(
            self._recall, clock, lanes=1, apart=Batch(self._recall, clock, lanes=1)
        )

    async def keep(self, key: EventKey, reply: Reply, *, anew: bool) -> None:
        """Keep status, content type and body, unless it broke off or is over 16 KiB.

        `anew`: in place of what was kept before. Raises StoreAway within a second.
        """
        if reply.complete and len(reply.body) <= REPLAY_LIMIT:
            await self._keeps.call(key.digest, (reply, anew), WITHIN)

    async def recall(self, key: EventKey) -> Reply | None:
        """None when none was kept. Raises StoreAway within a second."""
        return await self._recalls.call(key.digest, None, WITHIN)

    async def close(self) -> None:
        """Fail what is still waiting."""
        await self._keeps.close()
        await self._recalls.close()

    async def _keep(self, groups: Keeps, wait: str) -> None:
        replies = [group[0].item[0] for group in groups]
        anew = [UUID(group[0].key) for group in groups if group[0].item[1]]
        if anew:
            await self._sessions.fetch(self._statements["forget"], anew, wait)
        await self._sessions.fetch(
            self._statements["keep"],
            [UUID(group[0].key) for group in groups],
            [reply.status for reply in replies],
            [_content_type(reply) for reply in replies],
            [reply.body for reply in replies],
            wait,
        )
        for group in groups:
            for call in group:
                call.tell(None)

    async def _recall(self, groups: Recalls, wait: str) -> None:
        rows = await self._sessions.fetch(
            self._statements["recall"], [UUID(group[0].key) for group in groups]
        )
        kept = {n - 1: _reply(*rest) for n, *rest in rows}
        for n, group in enumerate(groups):
            for call in group:
                call.tell(kept.get(n))


def _content_type(reply: Reply) -> bytes | None:
    for name, value in reply.headers:
        if name.lower() == b"content-type":
            return value
    return None


def _reply(status: int, content_type: bytes | None, body: bytes) -> Reply:
    headers = ((b"Content-Type", content_type),) if content_type is not None else ()
    return Reply(status, b"", headers, body)
