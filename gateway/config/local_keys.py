"""Local keys: the files among a route's keys, and checks by these alone.

Loading looks whether the files have keys in them, and `try` checks a sample with them: nothing is
fetched here.
"""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path as FilePath
from typing import Any

from gateway.config.senders import is_url
from gateway.core.event import Delivery
from gateway.core.signature import Checked, Signature, Unchecked
from gateway.providers.keyset import Fixed, Keys, Source, parse
from gateway.providers.schemes import signer, verifier

# What one key file or document may be long; Google's is 2 KiB, Entra's 20.
LONGEST_DOCUMENT = 256 * 2**10
_ELSEWHERE = Unchecked("its keys are at a URL, and nothing is fetched here")


class _Elsewhere:
    """Keys that are published."""

    async def find(self, kid: str | None) -> Unchecked:
        """Nobody asks for them here."""
        del kid
        return _ELSEWHERE


class LocalKeys:
    """A keyring that opens files only."""

    def source(self, place: str) -> Source:
        """Raises OSError for a file that cannot be read, ValueError for one without a key."""
        return _Elsewhere() if is_url(place) else Fixed(from_file(place))

    async def certificate(self, url: str) -> Keys | Unchecked:
        """Those that a delivery names are elsewhere, too."""
        del url
        return _ELSEWHERE


def from_file(place: str) -> Keys:
    """The keys in a file. Raises OSError when it cannot be read, ValueError when none is in it."""
    with FilePath(place).open("rb") as file:
        content = file.read(LONGEST_DOCUMENT + 1)
    if len(content) > LONGEST_DOCUMENT:
        raise ValueError(f"{place} is longer than {LONGEST_DOCUMENT} bytes")
    try:
        return parse(content)
    except ValueError as error:
        raise ValueError(f"{place} {error}") from None


def unusable(signature: Signature) -> str | None:
    """Why the keys in a route's files, or written as its secrets, cannot be used; None if fine."""
    try:
        verifier(signature, LocalKeys())
        signer(signature)
    except (OSError, ValueError) as error:
        return str(error)
    return None


def check(signature: Signature, delivery: Delivery, now: float) -> Checked:
    """Whether a delivery is signed. `now`: epoch seconds."""
    return _at_once(verifier(signature, LocalKeys()).check(delivery, now))


def _at_once(checking: Coroutine[Any, Any, Checked]) -> Checked:
    """What waits for nothing ends at its first step, in an event loop or out of one."""
    try:
        checking.send(None)
    except StopIteration as done:
        checked: Checked = done.value
        return checked
    checking.close()
    return _ELSEWHERE
