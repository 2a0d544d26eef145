"""The screen: what is listed folds at a terminal, and stays whole in a pipe."""

from __future__ import annotations

import os
import textwrap

from rich.console import Console, RenderableType
from rich.text import Text

# Wider than any line: whoever reads a pipe looks for whole ids and addresses.
_UNFOLDED = 100_000


def screen() -> Console:
    """Without colours for numbers and ids: a colour says that something is wrong, or well."""
    console = Console(highlight=False)
    if not (console.is_terminal or os.environ.get("COLUMNS")):
        console.width = _UNFOLDED
    return console


def show(console: Console, table: RenderableType) -> None:
    """A table, without blanks at the ends of its lines."""
    with console.capture() as captured:
        console.print(table)
    lines = captured.get().splitlines()
    console.file.write("".join(f"{line.rstrip()}\n" for line in lines))


def show_text(console: Console, text: str, *, margin: int = 0, style: str = "") -> None:
    """Lines, folded between words only: what is cut is no address any more."""
    indent = " " * margin
    for line in text.splitlines():
        folded = textwrap.wrap(
            line,
            console.width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for one in folded or [""]:
            console.print(Text(one, style=style), soft_wrap=True)
