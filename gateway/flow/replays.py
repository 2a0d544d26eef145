"""Replays: what a duplicate is told, and the first replies behind it where a route repeats them."""

from __future__ import annotations

from gateway.core.answer import Duplicate
from gateway.core.claim import StoreAway
from gateway.core.outcome import Reply
from gateway.core.route import REPLAY_LIMIT, ReplayReply, Route
from gateway.flow.events import Event
from gateway.flow.needs import Replies
from gateway.flow.notes import Notes


class Replays:
    """One route's replies to duplicates. A reply that is lost costs the duplicate nothing else."""

    def __init__(self, route: Route, replies: Replies, notes: Notes) -> None:
        self._how = route.duplicate_reply
        self.wanted = isinstance(self._how, ReplayReply)
        """Whether the route replays; else keeping and looking up are needless."""
        self._is_verified = route.signature is not None
        self._replies = replies
        self._notes = notes

    async def keep(self, event: Event, reply: Reply) -> None:
        """Keep a first reply, if the route repeats it and a duplicate may be told it.

        With items that have no id no batch is ever a duplicate. A batch's latest reply counts: when
        its items are released, nothing finds the one before, which was kept under its own key.

        Of a success outside 2xx (a consumer's 409 for "known already", say) a provider would come
        back for ever: it is told once, as the consumer's own, and its duplicates hear plain 200.
        """
        if event.unkeyed or not (self.wanted and reply.complete and 200 <= reply.status < 300):
            return
        if len(reply.body) > REPLAY_LIMIT:
            self._notes.reply_lost(event, f"its body of {len(reply.body)} bytes is over 16 KiB")
            return
        try:
            await self._replies.keep(event.key, reply, anew=bool(event.items))
        except StoreAway as away:
            self._notes.reply_lost(event, str(away))

    async def duplicate(self, event: Event, first_seen: float | None) -> Duplicate:
        """What a duplicate of something durable is told."""
        kept = None
        if self.wanted:
            try:
                kept = await self._replies.recall(event.key)
            except StoreAway as away:
                self._notes.reply_lost(event, str(away))
        return Duplicate(self._how, kept, self.since(first_seen))

    def since(self, first_seen: float | None) -> float | None:
        """When the event was first seen, if the sender is known to be the provider."""
        return first_seen if self._is_verified else None
