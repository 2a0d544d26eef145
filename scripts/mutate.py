"""Break the rules of claims and entries on purpose, one at a time, and see that tests notice.

    python scripts/mutate.py            all edits
    python scripts/mutate.py doubt      those with "doubt" in their name

Each edit is applied to a copy of the tree, so nothing here changes. Prints which tests caught which
edit. Exits 1 when an edit survives, when one does not fit the source any more, or when the tests
fail without any edit.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SQL = "gateway/store/claims.sql"
INBOX = "gateway/store/inbox.sql"
QUERIES = "gateway/store/queries.py"
CORE = "gateway/core/claim.py"
COPIED = ("gateway", "tests", "deploy", "pyproject.toml")
# The tests of the rules. Faults, migrations and health are about other things and take longest.
TESTS = {
    CORE: ["tests/core/test_claim.py"],
    SQL: [
        "tests/store/test_histories.py",
        "tests/store/test_agreement.py",
        "tests/store/test_entry_agreement.py",
        "tests/store/test_statements.py",
        "tests/store/test_races.py::"
        "test_of_twelve_replicas_exactly_one_wins_each_event_first_and_at_each_take_over",
        "tests/store/test_races.py::"
        "test_a_claim_that_waits_for_anothers_insert_gets_what_becomes_of_it",
    ],
    INBOX: [
        "tests/store/test_inbox.py",
        "tests/store/test_entries.py",
        "tests/store/test_entry_agreement.py",
        "tests/store/test_inbox_statements.py",
    ],
    QUERIES: ["tests/store/test_entries.py", "tests/store/test_queries.py"],
}
# Enough to see whether more than one test notices; after that an edit only costs time.
MOST_FAILURES = 3
# What no edit of a rule can break, and what takes long.
LEFT_OUT = (
    "not primary_key and not kept_for_people and not keep_ids and not however_much_waits"
    " and not large"
)
# Two at once: each brings a Postgres of its own, and two cores are what a small machine has.
AT_ONCE = 2
TIME_LIMIT = 300


@dataclass(frozen=True, slots=True)
class Edit:
    """One broken rule. `old` must be there `times` times."""

    name: str
    file: str
    old: str
    new: str
    times: int = 1


LAPSED = "(c.state in ('c', 'C') and c.until < now())"
EDITS = [
    Edit("settle: fence on the token dropped", SQL, "   and c.token = a.token\n", ""),
    Edit("settle: fence on the state dropped", SQL,
         "   and c.state in ('c', 'C')\nreturning a.n::int4;", "returning a.n::int4;"),
    Edit("settle: completed is demoted by a release", SQL,
         "   and c.token = a.token\n   and c.state in ('c', 'C')\n",
         "   and (c.token = a.token or c.state in ('d', 'D'))\n"),
    Edit("settle: doubt forgotten on release", SQL,
         "when a.ending = 'r' and c.state = 'c' then 'r'", "when a.ending = 'r' then 'r'"),
    Edit("settle: doubt forgotten on success", SQL,
         "when a.ending = 'd' and c.state = 'c' then 'd'", "when a.ending = 'd' then 'd'"),
    Edit("settle: doubt not recorded", SQL,
         "when a.ending = 'r' and c.state = 'c' then 'r'", "when c.state = 'c' then 'r'"),
    Edit("settle: attempts forgotten on success", SQL,
         "when a.ending = 'd' then nullif(c.attempt, 1)", "when a.ending = 'd' then null"),
    Edit("settle: time of settling forgotten", SQL,
         "until   = case when extract(epoch from now()) > c.first_seen + 3600 then now() end\n"
         "  from", "until   = null\n  from"),
    Edit("complete: success not monotone", SQL,
         " where c.state not in ('d', 'D')\n", " where c.state in ('r', 'R')\n"),
    Edit("complete: twice", SQL, " where c.state not in ('d', 'D')\n", ""),
    Edit("complete: gone row not brought back", SQL,
         "  left join owed o on o.key = a.key\n order by a.key\non conflict (key) do update",
         "  left join owed o on o.key = a.key\n"
         " where exists (select from dedup.claims g where g.key = a.key)\n"
         " order by a.key\non conflict (key) do update"),
    Edit("complete: doubt forgotten", SQL,
         "(case when c.state in ('c', 'r', 's') and excluded.state = 'd' then 'd'\n"
         "                       else 'D' end)", "('d')"),
    Edit("complete: doubt of the entry forgotten", SQL,
         "when c.state in ('c', 'r', 's') and excluded.state = 'd' then",
         "when c.state in ('c', 'r', 's') then"),
    Edit("complete: attempts of the entry forgotten", SQL,
         "nullif(greatest(excluded.attempt, c.attempt), 1)", "nullif(c.attempt, 1)"),
    Edit("complete: entry left open", SQL,
         "   where e.key = a.key\n     and e.state <> 'd'\n", "   where false\n"),
    Edit("complete: late for whoever has the lease", SQL, "o.token = a.token and", "false and"),
    Edit("complete: never late for an entry", SQL, "o.token = a.token and o.state = 'l'", "true"),
    Edit("arrive: <= for < at the lease", SQL, "c.until < now()", "c.until <= now()", 2),
    Edit("arrive: lease not compared", SQL, LAPSED, "c.state in ('c', 'C')", 2),
    Edit("arrive: lapsed never opens", SQL, LAPSED, "false", 2),
    Edit("arrive: released never reopens", SQL,
         "c.state in ('r', 'R') or (c.state in ('c', 'C') and c.until < now()) as open",
         "c.state in ('c', 'C') and c.until < now() as open"),
    Edit("arrive: key conflict ignored", SQL,
         "on conflict (key) do nothing", "on conflict (key) do update set token = excluded.token"),
    Edit("arrive: duplicates insert first and look later", SQL,
         "   where not exists (select from seen s where s.key = a.key)\n", ""),
    Edit("arrive: bound on lock waits outlives the statement", SQL,
         "$7::text, true", "$7::text, false", 2),
    Edit("take_over: attempt fence dropped", SQL, "   and c.attempt = a.attempt\n", ""),
    Edit("take_over: state fence dropped", SQL, "   and c.state = a.state\n", ""),
    Edit("take_over: lease not compared again", SQL, f" or {LAPSED})\n", " or true)\n"),
    Edit("take_over: does not mark", SQL,
         "(case c.state when 'r' then 'c' else 'C' end)",
         "(case when c.state in ('r', 'c') then 'c' else 'C' end)"),
    Edit("take_over: doubt forgotten", SQL,
         "(case c.state when 'r' then 'c' else 'C' end)",
         "(case when c.state in ('r', 'R') then 'c' else 'C' end)"),
    Edit("take_over: attempts not counted", SQL, "= c.attempt + 1", "= c.attempt"),
    Edit("take_over: fingerprint of the first one kept", SQL,
         "       fingerprint = a.fingerprint\n", "       fingerprint = c.fingerprint\n"),
    Edit("accept: room not asked for", INBOX,
         "   where a.has_room\n     and not exists", "   where not exists"),
    Edit("accept: doubt forgotten", INBOX, "(case when a.doubtful then 'S' else 's' end)", "('s')"),
    Edit("accept, store: an owed entry is overwritten", INBOX,
         "   where e.state in ('d', 'x', 'o')\n", "", 2),
    Edit("accept, store: an entry that is over stays", INBOX,
         "   where e.state in ('d', 'x', 'o')\n", "   where false\n", 2),
    Edit("store: token fence dropped", INBOX,
         "     and c.token = a.token\n     and c.state in ('c', 'C')\n  returning",
         "     and c.state in ('c', 'C')\n  returning"),
    Edit("store: doubt of the claim forgotten", INBOX,
         "when c.state = 'c' and not a.doubtful then", "when not a.doubtful then"),
    Edit("store: doubt of the offer forgotten", INBOX,
         "when c.state = 'c' and not a.doubtful then", "when c.state = 'c' then"),
    Edit("store: own entry not recognised", INBOX,
         "on e.key = a.key and e.token = a.token", "on e.key = a.key and false"),
    Edit("store: anybody's entry taken for the own", INBOX,
         "on e.key = a.key and e.token = a.token", "on e.key = a.key"),
    Edit("store: attempt not handed on", INBOX,
         "m.attempt - (a.state <> 'l')::int4", "(a.state = 'l')::int4"),
    Edit("store: attempt counted although nobody leased it", INBOX,
         "m.attempt - (a.state <> 'l')::int4", "m.attempt"),
    Edit("lease: <= for < at the end of a lease", INBOX,
         "     and (e.state = 'p' or e.due < now())\n", ""),
    Edit("lease: < for <= at the end of a pause", INBOX,
         "     and e.due <= now()\n     and (e.state = 'p' or e.due < now())\n",
         "     and e.due < now()\n"),
    Edit("lease: due time not compared", INBOX,
         "     and e.due <= now()\n     and (e.state = 'p' or e.due < now())\n", ""),
    Edit("lease: lapsed lease is no doubt", INBOX,
         "doubtful = e.doubtful or f.state = 'l'", "doubtful = e.doubtful"),
    Edit("lease: doubt forgotten", INBOX,
         "doubtful = e.doubtful or f.state = 'l'", "doubtful = f.state = 'l'"),
    Edit("lease: attempt not counted", INBOX, " = e.attempt + 1", " = e.attempt"),
    Edit("lease: old token stays", INBOX, "       token    = $3,\n",
         "       token    = coalesce(e.token, $3),\n"),
    Edit("lease: completed events are sent", INBOX,
         "coalesce((select c.state in ('d', 'D') from dedup.claims c where c.key = d.key), false)",
         "false"),
    Edit("lease: completed events stay due", INBOX, "     and k.over\n", "     and false\n"),
    Edit("lease: locked rows are waited for", INBOX, "for update of e skip locked",
         "for update of e"),
    Edit("lease: newest for oldest", INBOX, "   order by e.due asc\n", "   order by e.due desc\n"),
    Edit("lease: oldest for newest", QUERIES, '(" asc", " desc")',
         '(" asc", " asc")'),
    Edit("lease: any number of bytes", INBOX, "(f.bytes <= $5 or f.n = 1)",
         "(f.bytes <= $5 or true)"),
    Edit("lease: nothing that is larger alone", INBOX, "(f.bytes <= $5 or f.n = 1)",
         "f.bytes <= $5"),
    Edit("lease: an order outlives its attempt", INBOX,
         "o.key = e.key and o.attempt = e.attempt - 1", "o.key = e.key"),
    Edit("put_back: token fence dropped", INBOX, "   and e.token = a.token\n   and e.state = 'l'\n",
         "   and e.state = 'l'\n"),
    Edit("put_back: state fence dropped", INBOX,
         "   and e.state = 'l'\nreturning a.n::int4;", "returning a.n::int4;"),
    Edit("put_back: doubt forgotten", INBOX, "e.doubtful or a.doubtful", "a.doubtful"),
    Edit("put_back: doubt not recorded", INBOX, "e.doubtful or a.doubtful", "e.doubtful"),
    Edit("put_back: unsent is counted", INBOX, "e.attempt - a.unsent::int4", "e.attempt"),
    Edit("put_back: pause forgotten", INBOX, "now() + a.pause * interval '1 second'", "now()"),
    Edit("revive: whatever it is", INBOX, "   and e.state = 'x'\nreturning a.n",
         "returning a.n"),
    Edit("revive: old age", INBOX, "set state = 'p', due = now(), since = now(),",
         "set state = 'p', due = now(),"),
    Edit("revive: old bytes", INBOX, "headers = a.headers, body = a.body",
         "headers = a.headers, body = e.body"),
    Edit("forget: what is still owed", INBOX, "     and e.state in ('d', 'o')\n", ""),
    Edit("forget: too early", INBOX, "e.settled < now() -", "e.settled < now() - 0 *"),
    Edit("core: <= for < at the lease", CORE, "self.lease_until < now", "self.lease_until <= now"),
    Edit("core: lapsed never opens", CORE,
         "return self.state is State.RELEASED or self.is_lapsed(now)",
         "return self.state is State.RELEASED"),
    Edit("core: released never reopens", CORE,
         "return self.state is State.RELEASED or self.is_lapsed(now)",
         "return self.is_lapsed(now)"),
    Edit("core: fence dropped", CORE,
         "before.state is State.CLAIMED and before.token == settlement.token",
         "before.state is State.CLAIMED"),
    Edit("core: doubt forgotten on take-over", CORE, "before.doubtful or lapsed", "lapsed"),
    Edit("core: take-over does not mark", CORE, "before.doubtful or lapsed", "before.doubtful"),
    Edit("core: doubt forgotten on release", CORE,
         "doubtful = before.doubtful or settlement.ending", "doubtful = settlement.ending"),
    Edit("core: doubt forgotten on success", CORE,
         "_free(before, State.COMPLETED, doubtful=before.doubtful)",
         "_free(before, State.COMPLETED, doubtful=False)"),
    Edit("core: completed twice", CORE, "if before.state is State.COMPLETED:", "if False:"),
    Edit("core: stored is open to take-over", CORE,
         "before.state in (State.COMPLETED, State.STORED)", "before.state in (State.COMPLETED,)"),
    Edit("core: own claim not recognised", CORE, "if before.token == ask.token:", "if False:"),
    Edit("core: late success not told", CORE, "late=not mine", "late=False"),
    Edit("core: attempts not counted", CORE, "before.attempt + 1", "before.attempt"),
]  # fmt: skip


def main(wanted: str) -> int:
    edits = [edit for edit in EDITS if wanted in edit.name]
    misfits = [
        edit for edit in edits if (ROOT / edit.file).read_text().count(edit.old) != edit.times
    ]
    for edit in misfits:
        print(f"does not fit any more: {edit.name}")
    if misfits or not edits:
        return 1
    untouched = [name for file in {edit.file for edit in edits} for name in caught_by(None, file)]
    if untouched:
        print("the tests fail without any edit:", *untouched, sep="\n  ")
        return 1
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda edit: caught_by(edit, edit.file), edits))
    print_matrix(edits, results)
    survivors = [edit.name for edit, caught in zip(edits, results, strict=True) if not caught]
    print(f"\n{len(edits)} edits, {len(survivors)} survived", *survivors, sep="\n  ")
    return 1 if survivors else 0


def caught_by(edit: Edit | None, file: str) -> list[str]:
    """The tests that fail with the edit; with None, those that fail anyway."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as place:
        for name in COPIED:
            source, target = ROOT / name, Path(place) / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        if edit:
            broken = Path(place) / edit.file
            broken.write_text(broken.read_text().replace(edit.old, edit.new))
        return failures(Path(place), TESTS[file])


def failures(place: Path, tests: list[str]) -> list[str]:
    options = ["-q", "--tb=no", "-rfE", "--timeout=60", "-p", "no:cacheprovider"]
    options += ["-k", LEFT_OUT, f"--maxfail={MOST_FAILURES}"]
    command = [sys.executable, "-m", "pytest", *tests, *options]
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, timeout=TIME_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return [f"(nothing within {TIME_LIMIT} s)"]
    found = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode and not found:
        found = [
            f"(pytest ended with {done.returncode}: {done.stdout[-200:] + done.stderr[-200:]})"
        ]
    return found


def print_matrix(edits: list[Edit], results: list[list[str]]) -> None:
    """One line an edit, one column a test file, with the number of tests that failed."""
    files = sorted({_file(test) for caught in results for test in caught})
    width = max(len(edit.name) for edit in edits)
    for n, file in enumerate(files):
        print(f"{' ' * width} {'  | ' * n}  {file}")
    for edit, caught in zip(edits, results, strict=True):
        counts = [sum(_file(test) == file for test in caught) for file in files]
        cells = "".join(f"{count or '.':>3} " for count in counts)
        first = caught[0].rpartition("::")[2] if caught else "SURVIVED"
        print(f"{edit.name:<{width}} {cells} {first[:90]}")


def _file(test: str) -> str:
    return test.partition("::")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
