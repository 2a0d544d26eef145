"""Events for the load: ids that differ, in request bytes that are alike."""

from __future__ import annotations

PATH = "/hooks/orders"
ID_LENGTH = 28  # what Stripe's ids have, and the length for which the size of a claim is promised

# About 500 bytes, the middle of what webhook bodies are; the id stands first, as mostly in life.
_BODY = (
    b'{"event_id": "%s", "type": "order.paid", "occurred_at": "2026-08-25T09:30:00Z", '
    b'"api_version": "2026-06-30", "livemode": true, "attempt": 1, "data": '
    b'{"order": {"number": "A-2026-004711", '
    b'"currency": "EUR", "total": "149.90", "customer": {"reference": "c_58120", "country": "AT", '
    b'"language": "de"}, "lines": [{"sku": "KB-1180", "quantity": 1, "price": "99.95"}, {"sku": '
    b'"CA-0042", "quantity": 5, "price": "9.99"}], "shipping": {"method": "parcel", "zone": 2}, '
    b'"note": "leave it with the neighbour on the ground floor"}}}'
)


def event_id(run: int, number: int) -> bytes:
    """28 characters; `run` keeps apart what shares a store."""
    return b"evt_%08x%016x" % (run, number)


class Requests:
    """Complete requests, built from three pieces so that the sender spends its time on sending."""

    def __init__(self, *, run: int, host: str, port: int) -> None:
        self._run = run
        before, after = _BODY.split(b"%s")
        head = (
            f"POST {PATH} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: bench/1\r\n"
            "Content-Type: application/json\r\nAccept: */*\r\n"
            f"Content-Length: {len(before) + ID_LENGTH + len(after)}\r\n\r\n"
        )
        self._before = head.encode() + before
        self._after = after

    def build(self, number: int) -> bytes:
        """The delivery of the run's event of that number."""
        return b"".join((self._before, event_id(self._run, number), self._after))
