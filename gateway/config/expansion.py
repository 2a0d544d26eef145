"""Expansion: `${NAME}`, `${NAME:-default}`, `${file:PATH}` and `$$` in the values of a file.

It runs after parsing, so a secret with a quote or a colon in it cannot change the structure, and
once, so a secret with a dollar sign in it stays as it is. Names of settings are never expanded, nor
are values that came from the environment or a flag.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from gateway.config.document import Document, walk
from gateway.config.problems import Fault, Path

_DOLLAR = re.compile(r"\$\$|\$\{([^}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What stands in for an absent value where only the structure is checked: text that passes as a name
# and as part of an address, and whole values for settings that want more than that.
_STAND_IN = "placeholder"
_STAND_INS = {
    "dsn": "postgresql://placeholder/placeholder",
    "url": "http://placeholder",
    "path": "/placeholder",
    "event_id": "json:/placeholder",
    "public_url": "https://placeholder",
}


@dataclass(slots=True)
class Expansion:
    """One pass over a document."""

    env: Mapping[str, str]
    folder: FilePath
    """What a relative path in `${file:PATH}` starts from."""
    required: bool
    """Whether an absent variable is a mistake; else something stands in for it."""
    files: list[FilePath] = field(default_factory=list)
    """Files that were read on the way."""
    _given: list[tuple[str, str]] = field(default_factory=list)
    """Of the value at hand: what came from elsewhere, and how it was written."""

    def run(self, document: Document) -> list[Fault]:
        """Expand every value in place."""
        faults: list[Fault] = []
        for path, value in list(walk(document.root)):
            if not isinstance(value, str) or "$" not in value:
                continue
            self._given = []
            try:
                document.replace(path, self._text(value))
                document.expanded[path] = tuple(self._given)
            except _Absent as absent:
                if self.required:
                    faults.append(Fault(path, absent.message, absent.remedy))
                else:
                    document.replace(path, _standing_in(path, value))
                    document.placeholders.add(path)
                    document.unsaid.add(path)
            except ValueError as error:
                message, _, remedy = str(error).partition("; ")
                faults.append(Fault(path, message, remedy))
        return faults

    def _text(self, value: str) -> str:
        return _DOLLAR.sub(self._one, value)

    def _one(self, match: re.Match[str]) -> str:
        text = self._meant(match)
        # What stands in the file as a default is no secret.
        if match[0] != "$$" and not match[0].endswith(f":-{text}}}"):
            self._given.append((text, match[0]))
        return text

    def _meant(self, match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        if match[1] is None:
            raise ValueError("has ${ without }; write ${NAME}, or $${ for the two characters")
        if match[1].startswith("file:"):
            return self._file(match[1].removeprefix("file:"))
        name, dash, default = match[1].partition(":-")
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"has {match[0]}, which names no variable; "
                "write ${NAME}, ${NAME:-default} or ${file:PATH}, or $${ for the two characters"
            )
        if dash:  # as in a shell: the default replaces an empty value too
            return self.env.get(name) or default
        if name not in self.env:
            raise _Absent(
                f"the variable {name} is not set", f"set it, or write ${{{name}:-a default}}"
            )
        return self.env[name]

    def _file(self, name: str) -> str:
        file = self.folder / name
        try:
            text = file.read_text("utf-8")
        except OSError as error:
            raise _Absent(
                f"cannot read {file}: {error.strerror}", "write a file that exists"
            ) from None
        except UnicodeDecodeError:
            raise ValueError(f"{file} is not UTF-8; save it as plain UTF-8") from None
        self.files.append(file)
        # Editors and `echo` end a file with a line break that is no part of the secret.
        return text.removesuffix("\n").removesuffix("\r")


class _Absent(Exception):
    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def _standing_in(path: Path, value: str) -> str:
    whole = _DOLLAR.fullmatch(value)
    usual = _STAND_INS.get(str(path[-1])) if whole else None
    return usual or _DOLLAR.sub(_STAND_IN, value)
