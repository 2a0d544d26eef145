"""The summary of an audit: what was compared, what is wrong, what was left aside, what it means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.core.auditing import KINDS, Against, Asked, Standing
from gateway.operating.story import wrapped
from gateway.operating.wording import several, span, stamp
from gateway.store.audit import ANNOUNCED, Answer


@dataclass(frozen=True, slots=True)
class Report:
    """All that an audit says, but for the findings one by one."""

    route: str
    source: str
    """Where the list came from."""
    unit: str
    """What numbers of its rows count."""
    asked: Asked
    partial: bool
    """Claims that the list lacks were not looked for."""
    answer: Answer
    rows: int
    """All that were read."""
    unusable: int
    """Rows of which no key can be made."""
    examples: tuple[str, ...]
    """Why, of the first ones."""
    absent: tuple[str, ...]
    """Places that deliveries are taken to lack, since no row has a column for them."""
    sharing: tuple[str, ...]
    """Other routes whose ids are one with this one's."""
    sample: int | None
    seed: int

    @property
    def against(self) -> Against:
        return self.answer.terms.against

    @property
    def kinds(self) -> tuple[Standing, ...]:
        """What may be wrong."""
        return KINDS[self.against]


_LISTS = {Against.EFFECTS: "the effects in", Against.PROVIDER: "the provider's list in"}
_SIDES = {Against.EFFECTS: "Effects", Against.PROVIDER: "The provider's list"}
_COUNTED = {
    Standing.LEAK: ("event has an effect and no claim", "events have an effect and no claim"),
    Standing.LOSS: ("completed claim has no effect", "completed claims have no effect"),
    Standing.MARKED: ("claim of a backfill has no effect", "claims of backfills have no effect"),
    Standing.DOUBLE: ("event has two effects or more", "events have two effects or more"),
    Standing.MISSING: ("event was sent and has no claim", "events were sent and have no claim"),
    Standing.UNKNOWN: ("claim is of no listed event", "claims are of no listed event"),
}
_MEANS = {
    Standing.LEAK: (
        "leak: these events reached the consumer on another way, or as deliveries without a claim:"
        " unkeyed, bypassed, or refused by the consumer and done all the same. Or the memory has"
        " lost them."
    ),
    Standing.LOSS: (
        "loss: the consumer said success and has no effect. dedup-gateway claims show tells of"
        " each; claims release lets the provider send it again. Where the consumer does nothing"
        " about some kinds of events, these are among them: --partial leaves them out."
    ),
    Standing.MARKED: (
        "marked: a backfill said that these were processed, and the list does not. Either it is not"
        " whole, or what the backfill read was wrong: then no delivery of them had its effect."
        " dedup-gateway claims show says who ran it; compare its rows with the list."
    ),
    Standing.DOUBLE: (
        "double: forwards of the announced ones were marked, since an earlier attempt may have had"
        " its effect. Of the others no claim says why: the gateway forwarded every copy while the"
        " route was in observe, or a batch was sent whole once more, marked; or they came on"
        " another way, or the list has two rows for one effect."
    ),
    Standing.MISSING: (
        "missing: these never arrived, or without an id where the route reads it, or were refused."
        " Have the provider send them again."
    ),
    Standing.UNKNOWN: (
        "unknown: events of another account, or forged ones, or the list is not whole. Where the"
        " route checks no signature, anybody can send it events."
    ),
}


def summary(report: Report) -> str:
    """For a terminal of 80 columns."""
    answer, terms = report.answer, report.answer.terms
    length = span(terms.until - terms.since)
    rows = [
        ("route", f"{report.route}, against {_LISTS[report.against]} {report.source}"),
        ("window", f"{stamp(terms.since)} to {stamp(terms.until)}, {length}{_why(report.asked)}"),
        *_titled("list", _list_lines(report)),
        ("claims", f"{answer.claims:,} that {report.route} took within the window"),
        ("", ""),
        *((kind.value, _found(report, kind)) for kind in report.kinds),
    ]
    if aside := _titled("aside", _aside(report)):
        rows += [("", ""), *aside]
    rows += [("", ""), *_titled("so", _so(report))]
    return "\n".join(line for row in rows for line in wrapped(*row))


def _why(asked: Asked) -> str:
    whole = asked.since is not None and asked.until is not None
    return "" if whole else ": as far as both sides go"


def _list_lines(report: Report) -> Iterator[str]:
    answer, listed = report.answer, report.answer.listed
    not_events = (Standing.DOUBLE, ANNOUNCED)
    events = sum(number for name, number in answer.of_list.items() if name not in not_events)
    yield f"{several(listed.number, 'row')} of {several(events, 'event')}"
    if listed.first is not None and listed.last is not None:
        yield f"from {stamp(listed.first)} to {stamp(listed.last)}"
    if report.unusable:
        said = several(report.unusable, "more row")
        yield f"{said} cannot be used: {'; '.join(report.examples)}"
    if report.absent:
        places = " and ".join(report.absent)
        yield f"assumed: deliveries have no {places}, as there is no such column"


def _found(report: Report, kind: Standing) -> str:
    answer = report.answer
    number = answer.found(kind)
    if report.partial and kind in (Standing.LOSS, Standing.MARKED, Standing.UNKNOWN):
        return "not looked for: the list is partial"
    if not number:
        return "none"
    said = several(number, *_COUNTED[kind])
    if kind is Standing.DOUBLE and (announced := answer.of_list.get(ANNOUNCED, 0)):
        said += f", {announced:,} of them announced"
    if report.sample is not None and number > report.sample:
        said += f"; {report.sample:,} shown"
    return said


def _aside(report: Report) -> Iterator[str]:
    """What was not judged, and why."""
    answer = report.answer
    for standing, said in _LISTED_ASIDE.items():
        if number := answer.of_list.get(standing, 0):
            yield f"{several(number, 'event')} {_filled(said, report)}"
    for standing, said in _CLAIMS_ASIDE.items():
        if number := answer.of_claims.get(standing, 0):
            more = _FURTHER if standing is Standing.AFTER and _is_open_ended(report.asked) else ""
            yield f"{several(number, 'claim')} {_filled(said, report)}{more}"
    yield from _shared(report)
    if answer.operations:
        yield f"{several(answer.operations, 'operation')} of several events each: no doubles"


def _shared(report: Report) -> Iterator[str]:
    for name, number in report.answer.routes.items():
        if name != report.route:
            yield f"{several(number, 'event')} claimed by route {name}, which shares the scope"
    if report.sharing:
        yield (
            f"the scope is shared with {' and '.join(report.sharing)}: claims that were made there"
            " are found for the list's events, and not looked through for others"
        )


_LISTED_ASIDE = {
    Standing.FORGOTTEN: "without a claim, older than the memory, which begins {begins}",
    Standing.UNDATED: (
        "without a claim and without a time: --since says from when on the list is whole"
    ),
    Standing.BEFORE: "before the window",
    Standing.AFTER: "after the window",
    Standing.EDGE: "without a claim, sent less than {edge} before the audit",
    Standing.UNFINISHED: (
        "with an effect, and a claim that is not completed: it is forwarded once more"
    ),
}
_CLAIMS_ASIDE = {
    Standing.UNDECIDED: "undecided: open, or owed by the inbox",
    Standing.DROPPED: "of events that an operator dropped",
    Standing.EDGE: "made or completed less than {edge} from an end of the window",
    Standing.BEFORE: "made before the window",
    Standing.AFTER: "made after the window",
}
_FURTHER = ": write --until if the list goes further than its last row"


def _filled(said: str, report: Report) -> str:
    terms = report.answer.terms
    return said.format(begins=stamp(terms.begins), edge=span(terms.edge))


def _is_open_ended(asked: Asked) -> bool:
    return asked.until is None and not asked.complete


def _so(report: Report) -> Iterator[str]:
    answer = report.answer
    if not answer.total:
        yield f"{_SIDES[report.against]} and claims agree, as far as they can be compared."
    for kind in report.kinds:
        if answer.found(kind):
            yield _MEANS[kind]
    if not answer.same_key:
        yield (
            "The store has another key of this route on record than this configuration:"
            " claims that were made under that one match nothing here."
        )
    elif _is_of_other_ids(answer):
        yield (
            "No event of the list has a claim: perhaps its ids are not those that the route reads."
            " dedup-gateway try shows what it reads in a delivery."
        )
    if report.sample is not None and answer.total:
        yield f"--sample {report.sample} --seed {report.seed} shows the same ones again."


def _is_of_other_ids(answer: Answer) -> bool:
    wrong = answer.found(Standing.LEAK) + answer.found(Standing.MISSING)
    return wrong > 0 and not answer.routes


def _titled(title: str, lines: Iterator[str]) -> list[tuple[str, str]]:
    return [("" if number else title, line) for number, line in enumerate(lines)]
