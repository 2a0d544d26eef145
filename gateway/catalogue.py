"""The catalogue: what is known of providers, for people who choose one or check what it brings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.core.location import header_names, parse_location
from gateway.options import JsonOption
from gateway.process import USAGE
from gateway.providers import presets, schemes
from gateway.providers.presets import Confidence, Fact, Never, Preset, Value
from gateway.providers.scheme import RECORDED
from gateway.screen import screen, show, show_text

# So many parts of a composite id tell what it is like; the others are counted.
FEW_PARTS = 2
# Columns that a table of all needs; below, each preset has two lines.
WIDE = 120
PROMISED = ("promise.timeout", "promise.retry_horizon", "promise.redrive_window")
# Not read anywhere, or read in two ways.
SHAKY = (Confidence.MEMORY, Confidence.CONFLICTING)
LEGEND = """\
promise: the provider's time-out, how long it retries, how old an event can be sent again
~ remembered, or sources disagree; ? not known
unverified: neither a library nor a published vector has shown the scheme right
duplicate: what answers one, where the provider insists on it with a body
observe: its id is doubtful, so a route starts in that mode
passes: it has no safe id, so nothing is deduplicated
`dedup-gateway providers NAME` shows every fact with its source."""


def providers(
    name: Annotated[
        str | None, typer.Argument(help="A preset, as in stripe.", metavar="NAME")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the providers that are known, or show all that is known of one, and how well."""
    console = screen()
    if name is None:
        found = [presets.preset(each) for each in presets.names()]
        if as_json:
            typer.echo(json.dumps(as_rows(found), indent=2))
        else:
            show_all(console, found)
        return
    try:
        one = presets.preset(name)
    except LookupError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(USAGE) from None
    if as_json:
        typer.echo(json.dumps(as_dict(one), indent=2))
    else:
        show_one(console, one)


def show_all(console: Console, found: Iterable[Preset]) -> None:
    """A line for each, or two where the terminal is narrow."""
    rows = map(row, found)
    show(console, _table(rows) if console.width >= WIDE else _grid(rows))
    show_text(console, f"\n{LEGEND}")


def _table(rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("provider", "event id", "promise", "signature", "duplicate", "remarks"):
        table.add_column(name, overflow="fold", no_wrap=name in ("provider", "duplicate"))
    for one in rows:
        table.add_row(*map(Text, one))
    return table


def _grid(rows: Iterable[tuple[str, ...]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, where, *others in rows:
        grid.add_row(Text(name), Text(where))
        grid.add_row("", Text("; ".join(filter(None, others)), style="dim"))
    return grid


def row(one: Preset) -> tuple[str, ...]:
    """Name, event id, promise, signature, duplicates' reply, and what to mind."""
    return (
        one.name,
        event_id(one),
        promise(one),
        signature(one),
        duplicate_reply(one),
        ", ".join(remarks(one)),
    )


def event_id(one: Preset) -> str:
    """Where it is, in few words."""
    if one.passes:
        return "none"
    where = "batch.event_id" if "batch.event_id" in one.settings else "event_id"
    fact = one.settings[where]
    prefix = "item " if where == "batch.event_id" else ""
    return _mark(fact) + prefix + abridged(fact.value)


def promise(one: Preset) -> str:
    """Time-out, retry horizon, redrive window."""
    return " ".join(_promised(one.settings.get(path)) for path in PROMISED)


def signature(one: Preset) -> str:
    """The scheme, and whether it was shown right."""
    fact = one.settings["signature.scheme"]
    return f"{fact.value}{'' if proof(one) else ', unverified'}"


def proof(one: Preset) -> str | None:
    """How the preset's scheme was shown right; None where it was not."""
    return schemes.scheme(str(one.settings["signature.scheme"].value)).proof


def unsigned(one: Preset) -> list[str]:
    """Headers that ids are read from, and that whoever recorded a delivery can replace."""
    facts = (one.settings.get(path) for path in ("scope", "event_id", "batch.event_id"))
    values = (fact.value for fact in facts if fact is not None)
    written = (text for value in values for text in ([value] if isinstance(value, str) else value))
    read = header_names(parse_location(str(text)) for text in written)
    return schemes.scheme(str(one.settings["signature.scheme"].value)).unsigned(read)


def remarks(one: Preset) -> list[str]:
    """What to mind before a route names it."""
    said = ["passes"] if one.passes else []
    if one.doubt is not None and not one.passes:
        said.append("observe")
    if one.evidence == "weak":
        said.append("weak evidence")
    if "handshakes" in one.settings:
        said.append("handshake")
    return said


def show_one(console: Console, one: Preset) -> None:
    """All facts, each with its evidence."""
    show_text(console, f"{one.name}: {one.title}")
    _indent(console, f"evidence {one.evidence}, checked {one.checked}")
    if one.doubt is not None and not one.passes:
        _indent(console, f"starts in observe: {one.doubt}")
    for path, fact in one.settings.items():
        if path == "handshakes":
            _show_handshakes(console, fact.value, one)
        else:
            _show(console, path, fact.value, fact, one)
    for path, fact in one.unknown.items():
        _show(console, path, f"not known: {fact.value}", fact, one)
    if one.special is not None:
        _show(console, "replies", one.special.value, one.special, one)
    for never in one.never:
        _show(console, "never an event id", f"{never.where}: {never.why}", never, one)
    show_text(console, "traps")
    for trap in one.traps:
        _indent(console, trap)


def _show(console: Console, name: str, value: Value, known: Fact | Never, one: Preset) -> None:
    if isinstance(value, list):
        show_text(console, name)
        _indent(console, "\n".join(map(_flat, value)))
    else:
        show_text(console, f"{name}: {_flat(value)}")
    if name == "signature.scheme":
        shown = proof(one)
        _indent(console, f"shown right by {shown}" if shown else "the scheme is unverified")
        if not one.signs_always:
            _indent(console, "it signs only where that was set up")
        if names := ", ".join(unsigned(one)):
            _indent(console, f"does not sign {names}: {RECORDED}")
    source = "" if known.source is None else f", {known.source}"
    _indent(console, f"{known.confidence.value} {one.checked}{source}", style="dim")
    if isinstance(known, Fact) and known.note:
        _indent(console, known.note, style="dim")


def _show_handshakes(console: Console, value: Value, one: Preset) -> None:
    for said in value:
        assert isinstance(said, dict)
        source, note = (said.get(name) for name in ("source", "note"))
        known = Fact(
            "",
            Confidence(str(said["confidence"])),
            None if source is None else str(source),
            None if note is None else str(note),
        )
        _show(console, "handshake", _handshake(said), known, one)


def _indent(console: Console, text: str, style: str = "") -> None:
    show_text(console, text, margin=4, style=style)


def _handshake(said: Mapping[str, Value]) -> str:
    methods = [f"method {one}" for one in said.get("methods", ())]
    where = " and ".join([*methods, *map(_flat, said["match"])])
    signed = "" if said["signed"] == "true" else "; unsigned"
    answer = said.get("answer")
    if answer is None:
        return f"{where}{signed}; passes to the app"
    return f"{where}{signed}; can be answered here with {_flat(answer)}"


def _flat(value: Value) -> str:
    match value:
        case str():
            return value
        case list():
            return ", ".join(map(_flat, value))
        case dict():
            return ", ".join(f"{name} {_flat(said) or '(empty)'}" for name, said in value.items())


def abridged(value: Value) -> str:
    """The first choice of each part, those first that are never left out."""
    parts = [part for part in ([value] if isinstance(value, str) else value)]
    told = sorted((str(part) for part in parts), key=lambda part: part.endswith("literal:-"))
    firsts = list(dict.fromkeys(part.partition(" | ")[0] for part in told))
    more = len(firsts) - FEW_PARTS
    return " + ".join(firsts[:FEW_PARTS]) + (f" + {more} more" if more > 0 else "")


def _promised(fact: Fact | None) -> str:
    return "?" if fact is None else _mark(fact) + _rounded(str(fact.value))


def _rounded(span: str) -> str:
    """The two largest units."""
    return "".join(re.findall(r"[0-9]+[a-z]+", span)[:2])


def _mark(fact: Fact) -> str:
    return "~" if fact.confidence in SHAKY else ""


def duplicate_reply(one: Preset) -> str:
    """Status, and the body that the provider insists on."""
    fact = one.settings.get("duplicate_reply")
    if fact is None or not isinstance(fact.value, dict):
        return "-"
    status, body = fact.value["status"], fact.value.get("body")
    return str(status) if body is None else f"{status} {body or 'empty'}"


def as_rows(found: Iterable[Preset]) -> list[dict[str, Any]]:
    """The list as JSON has it."""
    return [
        {
            "name": one.name,
            "title": one.title,
            "evidence": one.evidence,
            "checked": one.checked.isoformat(),
            "mode": "observe" if one.doubt is not None and not one.passes else None,
            "passes": one.passes,
            "event_id": _value(one, "batch.event_id") or _value(one, "event_id"),
            "promise": {path.partition(".")[2]: _value(one, path) for path in PROMISED},
            "signature": {"scheme": _value(one, "signature.scheme"), "proof": proof(one)},
            "duplicate_reply": _value(one, "duplicate_reply"),
        }
        for one in found
    ]


def as_dict(one: Preset) -> dict[str, Any]:
    """All facts as JSON has them."""
    return {
        **asdict(one),
        "checked": one.checked.isoformat(),
        "proof": proof(one),
        "unsigned": unsigned(one),
    }


def _value(one: Preset, path: str) -> Value | None:
    fact = one.settings.get(path)
    return None if fact is None else fact.value
