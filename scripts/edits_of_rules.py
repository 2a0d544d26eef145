"""The alerting rules, each broken in one place."""

from __future__ import annotations

from scripts.edits import Edit

PLACE = "gateway/rules"
RULE, MEMORY, DUPLICATES = f"{PLACE}/rule.py", f"{PLACE}/memory.py", f"{PLACE}/duplicates.py"
DELIVERIES, INBOX, PROCESS = f"{PLACE}/deliveries.py", f"{PLACE}/inbox.py", f"{PLACE}/process.py"
_DELIVERIES, _INBOX = "tests/rules/test_deliveries.py", "tests/rules/test_inbox.py"
TESTS_OF_RULES = {
    RULE: [_DELIVERIES, _INBOX],
    MEMORY: ["tests/rules/test_memory.py"],
    DUPLICATES: ["tests/rules/test_duplicates.py"],
    DELIVERIES: [_DELIVERIES],
    INBOX: [_INBOX],
    PROCESS: [_INBOX],
}
EDITS_OF_RULES = [
    Edit("alert: what a young process counted is old", RULE,
         "time() - process_start_time_seconds < {seconds:.0f}", "vector(1) < 0"),
    Edit("alert: everything that is counted is new", RULE,
         "time() - process_start_time_seconds < {seconds:.0f}", "dedup_build_info"),
    Edit("alert: observed routes too", RULE, "mode='!observe'", "mode='!none'"),
    Edit("alert: other routes' numbers", RULE,
         "series(metric, _named(routes), **labels)", "series(metric, None, **labels)"),
    Edit("alert: an accepted retention is too short", MEMORY,
         "  unless dedup_retention_short_accepted == 1\\n", ""),
    Edit("alert: the most forgiving gateway counts", MEMORY,
         '"min by (route) ({series})', '"max by (route) ({series})'),
    Edit("alert: an accepted retention of the file is too short", MEMORY,
         " or route.name in watched.accepted", ""),
    Edit("alert: a young canary is a missing one", MEMORY, "BETWEEN_CANARIES = 3600",
         "BETWEEN_CANARIES = 0"),
    Edit("alert: days may be missing", MEMORY, "BETWEEN_CANARIES = 3600",
         "BETWEEN_CANARIES = 10000"),
    Edit("alert: the first schema is a lost one", MEMORY,
         '"  and on (job, instance) max_over_time(dedup_store_up[1h] offset 10m) == 1\\n"', '""'),
    Edit("alert: a purger that never ran runs", MEMORY,
         '"  or min(process_start_time_seconds and on (job, instance) dedup_build_info)\\n"', '""'),
    Edit("alert: few duplicates are enough to say", MEMORY, ">= 10", ">= 0"),
    Edit("alert: a day of history is not needed", DUPLICATES, "ENOUGH = 144", "ENOUGH = 0"),
    Edit("alert: two duplicates are a spike", DUPLICATES, "LEAST = 20", "LEAST = 2"),
    Edit("alert: twice the mean is a spike", DUPLICATES, "TIMES = 5", "TIMES = 2"),
    Edit("alert: nothing to compare with", DUPLICATES,
         "clamp_min(sum_over_time({_ARRIVALS}[7d:10m] offset {RECENT}), 1)",
         "sum_over_time({_ARRIVALS}[7d:10m] offset {RECENT})"),
    Edit("alert: the spike is common", DUPLICATES, 'RECENT = "1h"', 'RECENT = "0s"'),
    Edit("alert: few busy replies of many", DELIVERIES, "{every} > 0.01", "{every} > 0"),
    Edit("alert: one busy reply", DELIVERIES, "{busy} > 5", "{busy} > 0"),
    Edit("alert: one forger among right ones", DELIVERIES,
         "unless {summed(good, '1h')} > 0", ""),
    Edit("alert: items of batches are no deliveries", DELIVERIES,
         'happened("batch_items_total", "10m", verdict="unkeyed")',
         'happened("deliveries_total", "10m", verdict="unkeyed")'),
    Edit("alert: the oldest view of a certificate", DELIVERIES,
         'max by (route) ({expiry})', 'min by (route) ({expiry})'),
    Edit("alert: one slow forward", DELIVERIES, "> 0.05", "> 0.01"),
    Edit("alert: every gateway's backlog", INBOX,
         "max by (route, state) ({series})", "sum by (route, state) ({series})"),
    Edit("alert: the file's limit is not known", INBOX, "if watched.routes:", "if False:"),
    Edit("alert: anything that is down is a gateway", PROCESS,
         'and on (job, instance) last_over_time(dedup_build_info[1d])', 'and up == 0'),
    Edit("alert: known routes are unknown", PROCESS,
         'ours.replace("=~", "!~")', "ours"),
]  # fmt: skip
