"""The rules of backfills, each broken in one place: keys of rows, and what becomes of them."""

from __future__ import annotations

from scripts.edits import Edit

PLACE = "gateway/operating"
COMPOSING, FORMATS, ROWS = f"{PLACE}/composing.py", f"{PLACE}/formats.py", f"{PLACE}/rows.py"
CELLS = f"{PLACE}/cells.py"
MARKING, COMMAND = f"{PLACE}/marking.py", f"{PLACE}/backfill.py"
SQL, STORE = "gateway/store/backfill.sql", "gateway/store/backfill.py"
_ROWS, _STORE = "tests/operating/test_backfill_rows.py", "tests/store/test_backfill.py"
_ONCE, _AGAIN = "tests/operating/test_backfill.py", "tests/operating/test_backfill_again.py"
_WRONG = "tests/operating/test_backfill_mistakes.py"
TESTS_OF_BACKFILLS = {
    COMPOSING: ["tests/operating/test_backfill_keys.py"],
    CELLS: ["tests/operating/test_backfill_keys.py", _WRONG],
    FORMATS: [_ROWS],
    ROWS: [_ROWS, _AGAIN],
    MARKING: [_ONCE, _AGAIN, _WRONG],
    COMMAND: [_ONCE, _AGAIN],
    SQL: [_STORE, _AGAIN, _ONCE],
    STORE: [_STORE],
}
EDITS_OF_BACKFILLS = [
    Edit("row: a header with its blanks", CELLS, 'text.strip(" \\t")  # as', "text  # as"),
    Edit("row: blanks about an id of a CSV", CELLS,
         "if not exact and text != text.strip():", "if False:"),
    Edit("row: an id of two lines of a CSV", CELLS,
         "if not exact and len(text.splitlines()) > 1:", "if False:"),
    Edit("row: a header of two lines", CELLS, '"[\\0\\r\\n]"', '"[\\0]"'),
    Edit("row: a compact date as seconds", CELLS,
         "None if _COMPACT_DATE.fullmatch(text) else ", ""),
    Edit("row: no literal for what has no column", COMPOSING,
         "falls_back=falls_back and _has_literal(location)", "falls_back=False"),
    Edit("row: an id of literals only", COMPOSING,
         'alias == "scope" or not all(map(may_be_constant, moving))', "True"),
    Edit("row: what is taken to be absent is not told", COMPOSING,
         "self._absent.update(reading.absent)", "pass"),
    Edit("row: id of one part only", COMPOSING,
         "return begins.pop() if len(begins) == 1 else None", "return None"),
    Edit("row: a value for its digest", COMPOSING,
         "return sha256_of(self._value(place.inner[0], exact=True))",
         "return self._value(place.inner[0], exact=True)"),
    Edit("row: the first alternative, if it has one or not", COMPOSING,
         "            elif not isinstance(found, Missing):\n                break",
         "            else:\n                break"),
    Edit("row: an item by the id of a lone event", COMPOSING,
         "recipes.append(replace(own, parts=batch.parts))", "recipes.append(own)"),
    Edit("row: an operation only beside an id", COMPOSING,
         'optional = alias == "id" and bool(recipe.operation)', "optional = False"),
    Edit("row: 7.0 is 7", CELLS, " if value.as_tuple().exponent == 0 else value", ""),
    Edit("row: a time without an offset", CELLS,
         "moment = value.timestamp() if value.tzinfo else None", "moment = value.timestamp()"),
    Edit("row: a header by its spelling", COMPOSING,
         "(canonical(location), *aliases)", "(describe(location), *aliases)"),
    Edit("row: a quote that nobody closes", FORMATS,
         "delimiter=_delimiter(header), strict=True", "delimiter=_delimiter(header)"),
    Edit("row: a member that occurs twice", FORMATS, "object_pairs_hook=_members, ", ""),
    Edit("row: a query that writes", ROWS, "transaction(readonly=True)", "transaction()"),
    Edit("mark: the latest time of an event", MARKING,
         "if event.at < known.at:", "if event.at > known.at:"),
    Edit("mark: first seen in the future", MARKING,
         "now if at is None else min(at, now)", "now if at is None else at"),
    Edit("mark: what will be processed", MARKING, "at > now + AHEAD", "at > now + 10**9"),
    Edit("mark: what is to be purged at once", MARKING,
         "< now - self._terms.retention.total_seconds()", "< 0"),
    Edit("mark: an event that comes again in a later batch", MARKING,
         "set(self._kept[was][number]) - seen", "set(self._kept[was][number])"),
    Edit("mark: the rows that are done", MARKING, "if skipped < tally.before:", "if False:"),
    Edit("mark: an end that is not recorded", MARKING,
         "mark, ended=True)", "mark, ended=False)"),
    Edit("mark: what was read to its end is done for good", SQL,
         "case when ended is null then rows end", "rows"),
    Edit("mark: all too old is all right", MARKING,
         "self.unusable or (self.too_old and not self.keyed and not self.before)", "self.unusable"),
    Edit("mark: a file by its name", ROWS,
         'hashlib.file_digest(opened, "sha256").hexdigest()', "self.file"),
    Edit("mark: a file under another key", COMMAND, ", run.route.print.hex()", ""),
    Edit("mark: what only counts", COMMAND, "        mark = _only_count(store)", "        pass"),
    Edit("mark: a claim that is there", SQL, "on conflict (key) do nothing",
         "on conflict (key) do update set state = 'd', token = null, until = null, attempt = 1"),
    Edit("mark: a body that nobody saw", SQL,
         '"char", 1, m.event_id', '"char", null, m.event_id'),
    Edit("mark: of no run", SQL, "($2::int8 % 256 - 128)", "(0 * $2::int8)"),
    Edit("mark: no patience with locks", STORE,
         "            except Locked:\n", "            except ZeroDivisionError:\n"),
    Edit("mark: ids that are not to be kept", STORE,
         "kept_text(event.key.event_id, utf8=utf8) if keep else None",
         "kept_text(event.key.event_id, utf8=utf8)"),
]  # fmt: skip
