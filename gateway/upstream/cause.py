"""The words for what went wrong on the way to a consumer and back: a closed set."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """Why there is no reply to judge: the `reason` of Unreached and Ambiguous."""

    NAME_NOT_FOUND = "name_not_found"
    CONNECT_REFUSED = "connect_refused"
    CONNECT_FAILED = "connect_failed"
    """No route, no file descriptor left: what else the kernel says before a connection stands."""
    CONNECT_TIMEOUT = "connect_timeout"
    CERTIFICATE = "certificate"
    """The consumer's certificate does not prove what we ask for."""
    TLS = "tls"
    """Any other failure of TLS. TLS 1.3 refuses a client late, after the request has left."""
    HUNG_UP = "hung_up"
    """The consumer closed a new connection before anything was written."""
    NO_SLOT = "no_slot"
    LEASE_OVER = "lease_over"
    SHUTTING_DOWN = "shutting_down"
    CLOSED = "closed"
    """The consumer closed before its reply head was complete."""
    RESET = "reset"
    WRITE_TIMEOUT = "write_timeout"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    TIMEOUT = "timeout"
    BAD_REPLY = "bad_reply"
    """Not HTTP, or framed in two ways at once."""
    BAD_STATUS = "bad_status"
    """Outside 100 to 599."""
    SWITCHED_PROTOCOLS = "switched_protocols"
    HEAD_TOO_LARGE = "head_too_large"
