"""What the figures were measured on: without this they cannot be compared with anything."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter

_PARTS = ("aiohttp", "asyncpg", "httptools", "uvloop", "dedup-gateway")


def facts(data: Path) -> dict[str, object]:
    """The machine, and the file system that `data` is on."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PARTS},
        "file_system": _file_system(data),
        "fsync_ms": _fsync_ms(data),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(path: Path) -> str:
    """Its type: on a tmpfs a durable commit costs nothing, and means nothing."""
    best, kind = "", "unknown"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, found, *_ = line.split(" ")
        if path.resolve().is_relative_to(mount) and len(mount) > len(best):
            best, kind = mount, found
    return kind


def _fsync_ms(directory: Path) -> float:
    """Median of 50 times writing 8 KiB until it is on the disk: what a commit waits for."""
    file, times = directory / "fsync", []
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY)
    try:
        for at in range(50):
            os.pwrite(descriptor, b"\0" * 8192, at * 8192)
            began = perf_counter()
            os.fdatasync(descriptor)
            times.append(perf_counter() - began)
    finally:
        os.close(descriptor)
        file.unlink()
    return median(times) * 1e3
