"""The rules of backfills, each broken in one place: keys of rows, and what becomes of them."""

from __future__ import annotations

from scripts.edits import Edit

PLACE = "gateway/operating"
COMPOSING, FORMATS, ROWS = f"{PLACE}/composing.py", f"{PLACE}/formats.py", f"{PLACE}/rows.py"
MARKING, COMMAND = f"{PLACE}/marking.py", f"{PLACE}/backfill.py"
SQL, STORE = "gateway/store/backfill.sql", "gateway/store/backfill.py"
_ROWS, _STORE = "tests/operating/test_backfill_rows.py", "tests/store/test_backfill.py"
_ONCE, _AGAIN = "tests/operating/test_backfill.py", "tests/operating/test_backfill_again.py"
TESTS_OF_BACKFILLS = {
    COMPOSING: ["tests/operating/test_backfill_keys.py"],
    FORMATS: [_ROWS],
    ROWS: [_ROWS, _AGAIN],
    MARKING: [_ONCE, _AGAIN],
    COMMAND: [_ONCE, _AGAIN],
    SQL: [_STORE, _AGAIN],
    STORE: [_STORE],
}
EDITS_OF_BACKFILLS = [
    Edit("row: a header with its blanks", COMPOSING, 'value.strip(" \\t")  # as', "value  # as"),
    Edit("row: a value for its digest", COMPOSING,
         "            return sha256_of(self._value(place.inner[0]))",
         "            return self._value(place.inner[0])"),
    Edit("row: the first alternative, if it has one or not", COMPOSING,
         "            if not isinstance(found, Missing):\n                break",
         "            break"),
    Edit("row: an item by the id of a lone event", COMPOSING,
         "recipes.append(replace(own, parts=batch.parts))", "recipes.append(own)"),
    Edit("row: an operation only beside an id", COMPOSING,
         'optional = alias == "id" and bool(recipe.operation)', "optional = False"),
    Edit("row: 7.0 is 7", COMPOSING, " if value.as_tuple().exponent == 0 else value", ""),
    Edit("row: a time without an offset", COMPOSING,
         "moment = value.timestamp() if value.tzinfo else None", "moment = value.timestamp()"),
    Edit("row: a header by its spelling", COMPOSING,
         "(canonical(location),)", "(describe(location),)"),
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
    Edit("mark: a file by its name", ROWS,
         'hashlib.file_digest(opened, "sha256").hexdigest()', "self.file"),
    Edit("mark: a file under another key", COMMAND, ", run.route.print.hex()", ""),
    Edit("mark: what only counts", COMMAND, "        mark = _only_count(store)", "        pass"),
    Edit("mark: a claim that is there", SQL, "on conflict (key) do nothing",
         "on conflict (key) do update set state = 'd', token = null, until = null, attempt = 1"),
    Edit("mark: a body that nobody saw", SQL,
         "'d', 'b', 1, m.event_id", "'d', 'b', null, m.event_id"),
    Edit("mark: no patience with locks", STORE,
         "            except Locked:\n", "            except ZeroDivisionError:\n"),
    Edit("mark: ids that are not to be kept", STORE,
         "kept_text(event.key.event_id, utf8=utf8) if keep else None",
         "kept_text(event.key.event_id, utf8=utf8)"),
]  # fmt: skip
