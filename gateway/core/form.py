"""Forms: urlencoded bodies and queries, read for single fields.

Only what may be a form is read as one. A JSON text that quotes `&command=` is none, and what it
quotes must not decide about it.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from gateway.core.event import Delivery

# A form with more fields than this is an attack on the parser, not an event.
MOST_FIELDS = 10_000
# Providers' forms have some kilobytes. Decoding takes 70 ms a megabyte where every character is
# escaped, and everybody waits for it.
LONGEST = 2**20
KIND = b"application/x-www-form-urlencoded"


def fields(delivery: Delivery, body: bytes) -> list[tuple[str, str]]:
    """Those of a delivery, whose body is given unpacked; none where it is no form."""
    return pairs(body) if len(body) <= LONGEST and _may_be_form(delivery, body) else []


def pairs(encoded: bytes) -> list[tuple[str, str]]:
    """The fields in their order; none where there are too many."""
    # surrogateescape keeps values that are no UTF-8 apart from each other.
    raw = encoded.decode("utf-8", "surrogateescape")
    try:
        return parse_qsl(
            raw,
            keep_blank_values=True,
            encoding="utf-8",
            errors="surrogateescape",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        return []


def _may_be_form(delivery: Delivery, body: bytes) -> bool:
    if body.lstrip()[:1] in (b"{", b"["):
        return False
    kind = delivery.header(b"content-type")
    return kind is None or kind.partition(b";")[0].strip().lower() in (KIND, b"")
