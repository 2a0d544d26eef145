"""Logs: one JSON object per line on stderr, an event name and fields, UTC.

Everything that is written goes through `json.dumps` with ASCII escapes, so no id can forge a line
or drive a terminal.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

# What every LogRecord has; anything else on it is a field that the caller gave as `extra`.
_OWN = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "taskName"}

EVENTS = {
    "config_invalid": "a changed configuration was not taken; the old one runs on",
    "config_reloaded": "a changed configuration is in force",
    "config_warning": "something in the configuration that an operator should know",
    "delivery": "one delivery (only with log_deliveries)",
    "drained": "what was in flight has ended",
    "draining": "SIGTERM or SIGINT came",
    "embedded_store": "where the embedded store's files are, and what became of its server",
    "embedded_store_restarted": "the embedded server had died and is back",
    "entry_dead": "a stored event was tried for as long as its route says",
    "entry_held": "a stored event waits for a person",
    "entry_revived": "a delivery met a dead entry, which is due again",
    "keys_away": "the public keys at a URL cannot be fetched; those that are there stay in use",
    "late_success": "a success was recorded after its lease was lost",
    "lease_lapsed": "a claim was taken over from a holder that never settled",
    "listening": "an address is bound",
    "memory_is_new": "a route recognises nothing of what its place remembers, and nobody said why",
    "memory_lost": "the store had its schema and lost it: the memory of events is gone",
    "memory_renewed": "a route makes its keys in another way from now on, as its user said",
    "observations_postponed": "notes of routes in observe could not be stored yet",
    "owed_unknown": "the store did not say at start what routes that are gone still owe",
    "payload_mismatch": "one id came with two bodies",
    "possible_double": "an event was accepted after an attempt that may have had its effect",
    "probe_undecided": "a probe did not say whether the consumer knows an event",
    "purge_postponed": "claims that are over could not be purged yet",
    "purged": "claims were purged whose retention was over",
    "purged_unresolved": "some of them were never brought to a known end",
    "reply_not_replayable": "a reply that the route wants replayed could not be kept or read",
    "request_failed": "a request failed in a way that nobody foresaw",
    "restart_needed": "settings changed that only a restart takes",
    "retention_registered": "a route's retention is on record, or longer than it was",
    "retention_shortened": "a route's claims are purged earlier than they were",
    "settle_postponed": "a settlement did not reach the store at once and is repeated",
    "settlement_dropped": "a settlement was given up",
    "signature_invalid": "a delivery was not signed by the provider",
    "stale_event": "a new event is older than the retention",
    "start_failed": "why the gateway could not start",
    "started": "the gateway runs",
    "stopped": "the gateway has ended",
    "store_away": "the store does not answer or takes no writes",
    "store_migrated": "migrations were applied",
    "store_risk": "how the store may lose what it confirms",
    "store_up": "the store answers and takes writes",
    "task_failed": "a background task failed in a way that nobody foresaw",
    "upstream_away": "a route's consumer cannot be reached",
    "upstream_back": "it can be reached again",
}


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """`event` is the message; exceptions become one more field."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line.update((k, v) for k, v in record.__dict__.items() if k not in _OWN)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(*, quiet: bool = False) -> None:
    """Send everything to stderr as JSON lines; libraries, and `quiet` programs, from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("gateway").setLevel(logging.WARNING if quiet else logging.INFO)
