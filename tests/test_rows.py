"""The interleaving table is the test plan: each row is forced by some test.

The markers are read from the sources, so a row cannot vanish with a file that is not collected.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent

# What each row is about; the numbers are those of the table.
ROWS = {
    1: "provider leaves in the middle of the body",
    2: "stalled body",
    3: "body over the limit",
    4: "odd framing",
    5: "no usable id, or two",
    6: "signature invalid",
    7: "store away at the claim",
    8: "store black-holed",
    9: "claim committed, reply lost",
    10: "claim not committed, connection lost",
    11: "claim waits on another that commits",
    12: "claim waits on another that rolls back",
    13: "our claim times out and commits later",
    14: "deadlock or serialisation failure",
    15: "cancelled during the claim",
    16: "many replicas claim at once",
    17: "crash after the claim, before the send",
    18: "paused beyond the lease, nobody took over",
    19: "paused in the gap, successor delivered",
    20: "paused in the gap, successor in flight",
    21: "lease shorter than a forward",
    22: "consumer unreachable",
    23: "stale pooled connection",
    24: "idempotent methods are not sent again",
    25: "upload cut half-way",
    26: "effect, no answer",
    27: "no effect, no answer",
    28: "effect after our time-out",
    29: "connection ends after reading",
    30: "2xx complete",
    31: "2xx head, body broken off",
    32: "unparsable answer",
    33: "forged event refused",
    34: "crash between refusal and release",
    35: "429, 503 with Retry-After",
    36: "5xx with and without effect",
    37: "redirect",
    38: "already processed",
    39: "duplicate of a completed event",
    40: "duplicate while in flight",
    41: "storm of duplicates",
    42: "waiter leaves",
    43: "waiter at another replica",
    44: "take-over of a lapsed claim",
    45: "two take-overs",
    46: "released without doubt",
    47: "released with doubt",
    48: "same id, other body",
    49: "same id elsewhere",
    50: "after the purge",
    51: "redrive of completed events",
    52: "mixed redrive",
    53: "provider leaves while we wait",
    54: "half-closing sender",
    55: "crash after the answer, before the record",
    56: "record fails after success",
    57: "record's reply lost",
    58: "crash after the record",
    59: "our reply lost",
    60: "record after the lease was lost",
    61: "release after the lease was lost",
    62: "successor fails after a late success",
    63: "successor succeeds too",
    64: "release fails",
    65: "failover loses the row in flight",
    66: "synchronous wait cancelled",
    69: "demoted primary",
    70: "database clock ahead",
    71: "database clock back",
    72: "gateway clock jumps",
    73: "loop stalled",
    74: "crash before the entry is committed",
    75: "entry committed, reply lost",
    76: "entry committed, crash before the acknowledgement",
    77: "duplicate of a stored event",
    78: "duplicate of a dead entry",
    79: "two workers lease at once",
    80: "worker dies or sleeps between lease and send",
    81: "worker dies between effect and record",
    82: "attempt that may have had its effect",
    83: "consumer refuses for good",
    84: "consumer says when to come back",
    85: "consumer down for hours",
    86: "backlog drains",
    87: "worker ends late",
    89: "event that kills its workers",
    90: "retries exhausted",
    91: "operator beside a worker",
    92: "late delivery whose signature is too old",
    93: "order of two events",
    94: "bytes of a stored delivery",
    95: "payloads are deleted and claims stay",
    96: "disk full",
    97: "store that confirms before it keeps",
    99: "upstream moved after storing",
    100: "SIGTERM when idle",
    101: "SIGTERM with a forward in flight",
    102: "SIGTERM while a body arrives",
    103: "drain deadline",
    104: "SIGTERM in a worker",
    105: "SIGKILL anywhere",
    106: "killed with connections in the accept queue",
    107: "rolling upgrade",
    108: "forged copy holds the slot",
    109: "replay of a completed event",
    110: "several events in one request",
}

# Rows of the table that no test forces, and why.
NOT_YET = {
    67: "a barrier write before answering for young rows is an option that was not built",
    68: "two writable primaries are outside the gateway's power; the cluster has to fence",
    88: "leases are never renewed: each is longer than the longest send",
    98: "nobody listens for notifications: workers look every second, which bounds the delay",
}

CASES = {f"B{n:03}" for n in range(1, 28)}


def markers(kind: str) -> Iterator[tuple[str, list[Any]]]:
    """Every test with markers of a kind, and all arguments of those."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found = [
                    argument.value
                    for decorator in node.decorator_list
                    if isinstance(decorator, ast.Call)
                    and ast.unparse(decorator.func) == f"pytest.mark.{kind}"
                    for argument in decorator.args
                    if isinstance(argument, ast.Constant)
                ]
                if found:
                    yield f"{path.relative_to(TESTS)}::{node.name}", found


def test_every_row_is_forced_by_a_test() -> None:
    forced = {row for _, rows in markers("row") for row in rows}
    missing = {number: what for number, what in ROWS.items() if number not in forced}
    assert not missing


def test_no_test_claims_an_unknown_row_or_one_that_is_excused() -> None:
    wrong = {name: rows for name, rows in markers("row") if not set(rows) <= set(ROWS)}
    assert not wrong
    assert not set(ROWS) & set(NOT_YET)


def test_a_test_forces_at_most_three_rows() -> None:
    assert not {name: rows for name, rows in markers("row") if len(rows) > 3}


def test_every_field_case_is_a_test() -> None:
    tested = Counter(case for _, cases in markers("case") for case in cases)
    assert not CASES - set(tested)
    assert not set(tested) - CASES
