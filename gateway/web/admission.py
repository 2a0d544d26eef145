"""What of a request's head is refused before its body is read. The parser has refused the rest."""

from __future__ import annotations

from aiohttp import hdrs
from aiohttp.http import HttpVersion10, HttpVersion11, RawRequestMessage

from gateway.core.answer import Reason, Rejected

NO_ROUTE = Rejected(Reason.NO_ROUTE, 404, "no route is configured for this path and host")
_VERSION = Rejected(Reason.MALFORMED, 400, "the protocol version is neither HTTP/1.0 nor HTTP/1.1")
_TARGET = Rejected(Reason.TARGET, 400, "the target must be a path, without a fragment")
_CODING = Rejected(
    Reason.TRANSFER_CODING, 501, "the only transfer coding taken is chunked, on HTTP/1.1"
)


def refusal(message: RawRequestMessage) -> Rejected | None:
    """Why a head is refused; None when it is fine.

    A coding other than `chunked` would be read by the next hop in its own way, and an absolute
    target names a host that nobody has checked: both are ways to smuggle a request past a proxy.
    """
    version = message.version
    if version is not HttpVersion11 and version is not HttpVersion10:
        return _VERSION
    target = message.path
    if not target.startswith("/") or "#" in target or not target.isascii():
        return _TARGET
    coding = message.headers.get(hdrs.TRANSFER_ENCODING)
    if coding is not None and (coding.lower() != "chunked" or version is HttpVersion10):
        return _CODING
    return None
