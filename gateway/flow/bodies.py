"""Bodies of entries under way: so many bytes in memory together, whatever is owed.

A delivery that was acknowledged has left the budget of the web's side, and its body stays in memory
until the consumer has answered. Sixty-four of 25 MiB are more than a small container has, and after
a restart the same backlog would be leased again.
"""

from __future__ import annotations


class Bodies:
    """All of a process. `most`: bytes.

    A route whose entries are all at rest may begin one at any time: no other route's bodies stop it
    altogether. What is leased is weighed when it has come, so a lease may pass the bound once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0
        """Bytes."""

    def has_room(self, size: int = 1) -> bool:
        """Whether a body of so many bytes may come in."""
        return self.taken + size <= self._most

    def take(self, size: int) -> None:
        """One came in."""
        self.taken += size

    def give_back(self, size: int) -> None:
        """One is gone."""
        self.taken -= size
