"""Reloading: a configuration that changed is put in force; one that cannot be leaves the old one.

Asked for by SIGHUP, and looked for by content, because ConfigMaps swap links and send no signal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from gateway.config import ConfigError, Loaded, changed, fingerprint

log = logging.getLogger("gateway.app")

# Soon enough for whoever waits for it.
LOOK_EVERY = 10.0


class Reloading:
    """Looks at the configuration for as long as `watch` runs.

    `reread` loads it again. `use` puts it in force and raises OSError or ValueError when it
    cannot. `told` hears
    whether what is on disk is what runs.
    """

    def __init__(
        self,
        started: Loaded,
        *,
        reread: Callable[[], Loaded],
        use: Callable[[Loaded], Awaitable[None]],
        told: Callable[[bool], None],
    ) -> None:
        self._started = self._loaded = started
        self._reread = reread
        self._use = use
        self._told = told
        self._fault = ""
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Look now, and take what is there even if nothing changed."""
        self._asked.set()

    async def watch(self, every: float = LOOK_EVERY) -> None:
        """Forever. `every`: seconds between two looks."""
        while True:
            try:
                async with asyncio.timeout(every):
                    await self._asked.wait()
            except TimeoutError:
                pass
            asked = self._asked.is_set()
            self._asked.clear()
            # After a fault the same content is news: the old file may be back.
            if asked or self._fault or fingerprint(self._loaded.files) != self._loaded.digest:
                await self._once(asked=asked)

    async def _once(self, *, asked: bool) -> None:
        try:
            loaded = self._reread()
            await self._use(loaded)
        except (ConfigError, OSError, ValueError) as error:
            if asked or str(error) != self._fault:
                log.error("config_invalid", extra={"detail": str(error)})
            self._fault = str(error)
            self._told(False)
            return
        before, self._loaded, self._fault = self._loaded, loaded, ""
        self._told(True)
        log.info("config_reloaded", extra={"changes": _changes(before, loaded)})
        # Not by line: what is written above a setting moves it.
        said = {(notice.path, notice.message) for notice in before.notices}
        for notice in loaded.notices:
            if (notice.path, notice.message) not in said:
                log.warning("config_warning", extra={"detail": str(notice)})
        # Against what runs, not against the last file: until the restart it stays needed.
        if restart := changed(self._started, loaded):
            log.warning("restart_needed", extra={"settings": restart})


def _changes(old: Loaded, new: Loaded) -> list[str]:
    """What is in force now and was not before; a route's mode in words, for it changes most."""
    before, after = ({route.name: route for route in one.routes} for one in (old, new))
    said = [f"{name}: removed" for name in before if name not in after]
    for name, route in after.items():
        if name not in before:
            said.append(f"{name}: added")
            continue
        mode = before[name].mode
        if mode is not route.mode:
            said.append(f"{name}: {mode.value} -> {route.mode.value}")
        if replace(before[name], mode=route.mode) != route:
            said.append(f"{name}: changed")
        if before[name].print != route.print:
            said.append(f"{name}: another key, so events known by the old one count as new")
    pairs = {
        "trusted_proxies": (old.trusted_proxies, new.trusted_proxies),
        "drain_delay": (old.drain_delay, new.drain_delay),
    }
    said += [name for name, (was, now) in pairs.items() if was != now]
    was, now = (dict(zip(one.files, one.digest, strict=True)) for one in (old, new))
    return said + [
        f"{file}: other content" for file in new.held if was.get(file, now[file]) != now[file]
    ]
