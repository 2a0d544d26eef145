"""Routes by number: a claim keeps two bytes of its route instead of a name."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.store.queries import read
from gateway.store.session import Lost, NoSession, Sessions

# Others may take the numbers that we want while we ask; each of them can do so only once.
MOST_ROUNDS = 20


class Routes:
    """The routes of this process, and their numbers as soon as the store has told them."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._statements = read("routes.sql")
        self.recipes: dict[str, bytes] = {}
        """By name: the print of each route's key recipe."""
        self.ids: dict[str, int] = {}
        self._learnt_from = 0

    def register(self, recipes: Mapping[str, bytes]) -> None:
        """Remember the routes. What is written first about a name stays."""
        self.recipes.update(recipes)

    def forget(self) -> None:
        """What was learnt may be wrong by now."""
        self._learnt_from, self.ids = self._sessions.opened, {}

    async def resolve(self) -> None:
        """Learn the numbers that are still unknown. Raises NoSession or Aborted.

        All of them are asked for again after a new session: a restored or failed-over server may
        have lost a route's row, and would give its number to another route.
        """
        if self._learnt_from != self._sessions.opened:
            self.forget()
        for _ in range(MOST_ROUNDS):
            missing = sorted(self.recipes.keys() - self.ids.keys())
            if not missing:
                return
            try:
                await self._learn(missing)
            except Lost as lost:  # nobody's claim is in doubt
                raise NoSession(str(lost)) from lost
        raise NoSession("the numbers of the routes are in dispute")

    async def _learn(self, names: list[str]) -> None:
        known = await self._sessions.ask(self._statements["known"], names)
        self.ids.update({name: number for name, number in known})
        if new := [name for name in names if name not in self.ids]:
            recipes = [self.recipes[name] for name in new]
            await self._sessions.ask(self._statements["remember"], new, recipes)
