"""Failures of the system as sentences, for whoever reads a terminal or a log."""

from __future__ import annotations

import os
import re

_CONNECT = re.compile(r"\[Errno (\d+)\] Connect call failed \('([^']+)', (\d+)[^)]*\)")
_NUMBER = re.compile(r"\[Errno -?\d+\] ")


def sentence(error: BaseException) -> str:
    """What happened, without numbers that only a programmer looks up."""
    said = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror and error.filename:
        said = f"{error.filename}: {_small(error.strerror)}"
    said = _CONNECT.sub(_unconnected, said)
    said = re.sub(r"^Multiple exceptions: ", "", said)
    return re.sub(r"\bTimeoutError\b", "no answer in time", _NUMBER.sub("", said))


def _unconnected(match: re.Match[str]) -> str:
    number, host, port = match.groups()
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{_small(os.strerror(int(number)))} at {place}"


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]
