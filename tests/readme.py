"""README as tests read it: sections, tables, blocks of code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def section(title: str) -> str:
    """The text below a heading, up to the next heading of its level or above."""
    heading = re.search(rf"^(#+) {re.escape(title)}$", README, re.MULTILINE)
    assert heading, f"README has no section {title!r}"
    rest = README[heading.end() :]
    following = re.search(rf"^#{{1,{len(heading[1])}}} ", rest, re.MULTILINE)
    return rest[: following.start()] if following else rest


def table(title: str, first_column: str) -> dict[str, list[str]]:
    """The table whose first column has that name: first cells, in bare code, to the others."""
    found: dict[str, list[str]] = {}
    inside = False
    for line in section(title).splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            inside = False
        elif cells[0] == first_column:
            inside = True
        elif inside and set(cells[0]) - set("-"):
            found[cells[0].strip("`")] = cells[1:]
    assert found, f"README's section {title!r} has no table that begins with {first_column!r}"
    return found


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.M)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
