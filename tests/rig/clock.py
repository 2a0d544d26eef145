"""A wall clock that jumps, for chosen processes only."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gateway.store import programs
from tests.rig import debian

POSTGRES = """#!/bin/sh
export {exports}
exec '{program}' "$@"
"""


class Clock:
    """libfaketime is loaded into a process and looks into a file each time somebody asks.

    The monotonic clock is left alone, as it is when an operator or NTP sets the time.
    """

    def __init__(self, place: Path) -> None:
        """Skips the test where there is no libfaketime. `place`: open to whoever is to have it."""
        self._place = place
        self._library = place / "libfaketime.so"
        self._file = place / "clock"
        shutil.copy(debian.path_of("libfaketime"), self._library)
        self._library.chmod(0o755)
        self.is_wrong_by(0)

    def is_wrong_by(self, seconds: int) -> None:
        """From now on, compared with the true time. Takes effect at once."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n")
        fresh.chmod(0o644)
        fresh.replace(self._file)

    @property
    def env(self) -> dict[str, str]:
        """What a process needs in its environment to have this clock."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def postgres(self, cluster: Path) -> Path:
        """A directory for PG_BIN whose `postgres` has this clock."""
        who = programs.account(None, cluster)
        real = programs.reachable(programs.find(), who, self._place / "programs").bin
        directory = self._place / "bin"
        directory.mkdir(mode=0o755)
        exports = " ".join(f"{name}='{value}'" for name, value in self.env.items())
        (directory / "postgres").write_text(
            POSTGRES.format(exports=exports, program=real / "postgres")
        )
        os.chmod(directory / "postgres", 0o755)
        (directory / "initdb").symlink_to(real / "initdb")
        return directory
