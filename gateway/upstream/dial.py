"""Dialling: from a consumer's name to a connection that can carry a request.

Name look-up, TCP and TLS share one time limit. Several addresses are tried as RFC 8305 says, a
quarter of a second apart; the loop does not do it for us, because uvloop's `create_connection`
tries one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from itertools import chain, zip_longest

from gateway.core.outcome import Unreached
from gateway.core.route import Tls, Upstream
from gateway.upstream.cause import Cause
from gateway.upstream.connection import Connection

# RFC 8305, section 8: the recommended delay between two attempts.
STAGGER = 0.25
# A consumer that moves is soon found again; one that closes after each reply is not looked up
# each time.
NAME_SECONDS = 2.0
# Closing waits no longer for the other side's close_notify; nothing of ours depends on it.
TLS_SHUTDOWN_SECONDS = 1.0

Address = tuple[socket.AddressFamily, tuple[object, ...]]


class NotDialled(Exception):
    """No connection, and no byte of a request left us."""

    def __init__(self, cause: Cause, *, timed_out: bool = False) -> None:
        super().__init__(cause)
        self.outcome = Unreached(cause, timed_out)


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Raises OSError (ssl.SSLError is one) when a file cannot be used."""
    context = ssl.create_default_context(cafile=tls.ca)
    # Python 3.13 began to want key usage and key identifiers of an authority. Many a private one
    # has none, and whether a consumer is reached must not depend on the Python that runs us.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    context.set_alpn_protocols(["http/1.1"])
    return context


class Dialler:
    """Opens connections to one upstream.

    At most one name look-up is under way: look-ups run in threads that all routes share, and a
    name server that does not answer would otherwise take them all.
    """

    def __init__(self, upstream: Upstream) -> None:
        self.certificate_expires: float | None = None
        self._upstream = upstream
        self._tls = tls_context(upstream.tls) if upstream.scheme == "https" else None
        self._literal = _literal(upstream.host, upstream.port)
        self._lookup: asyncio.Future[list[Address]] | None = None
        self._looked_up = 0.0
        self._under_way: set[asyncio.Timeout] = set()
        self._stopped = False

    async def dial(self, connection: Connection) -> None:
        """Open `connection`. Raises NotDialled."""
        if self._stopped:
            raise NotDialled(Cause.SHUTTING_DOWN)
        limit = asyncio.timeout(self._upstream.connect_timeout)
        self._under_way.add(limit)
        try:
            async with limit:
                chosen = await race(await self._addresses())
                await self._attach(connection, chosen)
        except TimeoutError:
            if self._stopped:
                raise NotDialled(Cause.SHUTTING_DOWN) from None
            raise NotDialled(Cause.CONNECT_TIMEOUT, timed_out=True) from None
        except OSError as error:
            raise NotDialled(_cause(error)) from error
        finally:
            self._under_way.discard(limit)

    def stop(self) -> None:
        """Whoever is dialling fails now."""
        self._stopped = True
        for limit in self._under_way:
            limit.reschedule(asyncio.get_running_loop().time())

    async def _addresses(self) -> list[Address]:
        if self._literal is not None:
            return [self._literal]
        loop = asyncio.get_running_loop()
        fresh = self._lookup is not None and (
            not self._lookup.done() or loop.time() < self._looked_up + NAME_SECONDS
        )
        if self._lookup is None or not fresh:
            self._lookup = loop.create_task(_look_up(self._upstream.host, self._upstream.port))
            self._lookup.add_done_callback(self._note_lookup)
        return await asyncio.shield(self._lookup)

    def _note_lookup(self, lookup: asyncio.Future[list[Address]]) -> None:
        self._looked_up = lookup.get_loop().time()
        failed = lookup.cancelled() or lookup.exception() is not None
        if failed and self._lookup is lookup:
            self._lookup = None

    async def _attach(self, connection: Connection, chosen: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            chosen.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                await loop.create_connection(lambda: connection, sock=chosen)
                return
            transport, _ = await loop.create_connection(
                lambda: connection,
                sock=chosen,
                ssl=self._tls,
                server_hostname=self._upstream.host,
                ssl_shutdown_timeout=TLS_SHUTDOWN_SECONDS,
            )
        except TimeoutError:
            chosen.close()
            raise
        except OSError as error:
            chosen.close()
            if self._tls is None or isinstance(error, ssl.SSLError):
                raise
            # Reset or closed in the middle of a handshake.
            raise ssl.SSLError(str(error)) from error
        except asyncio.CancelledError:
            chosen.close()
            raise
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.certificate_expires = float(ssl.cert_time_to_seconds(certificate["notAfter"]))


async def race(addresses: list[Address]) -> socket.socket:
    """The first TCP connection that stands. Raises OSError.

    Attempts start `STAGGER` apart, or as soon as one has failed.
    """
    if len(addresses) == 1:
        return await _connect(*addresses[0])
    waiting, racing, failure = list(reversed(addresses)), set[asyncio.Task[socket.socket]](), None
    try:
        while waiting or racing:
            if waiting:
                racing.add(asyncio.ensure_future(_connect(*waiting.pop())))
            done, racing = await asyncio.wait(
                racing,
                timeout=STAGGER if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            winners = [task.result() for task in done if task.exception() is None]
            for late in winners[1:]:
                late.close()
            if winners:
                return winners[0]
            failure = next((task.exception() for task in done), failure)
    finally:
        await _call_off(racing)
    assert failure is not None
    raise failure


async def _call_off(racing: set[asyncio.Task[socket.socket]]) -> None:
    for task in racing:
        task.cancel()
    for result in await asyncio.gather(*racing, return_exceptions=True):
        if isinstance(result, socket.socket):
            result.close()


async def _connect(family: socket.AddressFamily, address: tuple[object, ...]) -> socket.socket:
    attempt = socket.socket(family, socket.SOCK_STREAM)
    try:
        attempt.setblocking(False)
        await asyncio.get_running_loop().sock_connect(attempt, address)
    except (OSError, asyncio.CancelledError):
        attempt.close()
        raise
    return attempt


async def _look_up(host: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that IDNA cannot express
        raise socket.gaierror(socket.EAI_NONAME, str(error)) from None
    return interleaved([(family, address) for family, _, _, _, address in found])


def interleaved(addresses: list[Address]) -> list[Address]:
    """Families take turns, so that one without a route costs one delay, not many."""
    first = [a for a in addresses if a[0] == addresses[0][0]]
    other = [a for a in addresses if a[0] != addresses[0][0]]
    return [a for a in chain.from_iterable(zip_longest(first, other)) if a is not None]


def _literal(host: str, port: int) -> Address | None:
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).version == 4:
            return socket.AF_INET, (host, port)
        if "%" not in host:  # a zone is for the resolver
            return socket.AF_INET6, (host, port, 0, 0)
    return None


def _cause(error: OSError) -> Cause:
    match error:
        case socket.gaierror():
            return Cause.NAME_NOT_FOUND
        case ConnectionRefusedError():
            return Cause.CONNECT_REFUSED
        case ssl.SSLCertVerificationError():
            return Cause.CERTIFICATE
        case ssl.SSLError():
            return Cause.TLS
        case _:
            return Cause.CONNECT_FAILED
