"""One session with the host that accepts writes, however many hosts the DSN names.

asyncpg's own connect() tries the hosts of a DSN one after another under a single time-out, so a
host that hangs (powered off, packets dropped, stopped) eats all of it and the next is never tried.
Here each host has its own time-out and all are tried at once; the first that accepts writes wins.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count, zip_longest
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg

from gateway.dsn import require_readable
from gateway.failures import sentence

# One host's name look-up, TCP, TLS, log-in and check. A caller has less than two seconds in all,
# and on a healthy network this takes some milliseconds.
HOST_TIMEOUT = 1.0
# Data that a peer has not acknowledged for this long ends the connection, in milliseconds; without
# it a host that vanished costs minutes.
DEAD_PEER_MS = 5000
# asyncpg's own default.
CACHED_STATEMENTS = 100

# Asked of the server itself. What came with the connection is no answer: PgBouncer passes on what
# it heard when it first connected, and says "standby" long after that one was promoted.
READ_ONLY = "select pg_is_in_recovery() or current_setting('transaction_read_only')::bool"

# Of all prepared statements of this process; see Session.
_PROCESS = secrets.token_hex(8)
_NUMBERS = count(1)

CONNECT_ERRORS = (
    OSError,  # TimeoutError is one
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    ValueError,  # in parts of the DSN that asyncpg reads only now
)


class ReadOnlyHost(ConnectionError):
    """It is a standby, or has been told to take no writes."""


class NoWritableHost(ConnectionError):
    """No host of the DSN could be reached and written to."""

    def __init__(self, errors: Mapping[str, Exception]) -> None:
        """`errors`: what each DSN's host came to."""
        said = (_told(dsn, error) for dsn, error in errors.items())
        super().__init__("; ".join(dict.fromkeys(said)))
        self.kind = _kind(list(errors.values()))


@dataclass(frozen=True, slots=True)
class Target:
    """A DSN, taken apart."""

    dsns: tuple[str, ...]
    """One per host."""
    cached_statements: int
    """0 behind a pooler that does not know prepared statements: `?statement_cache_size=0`."""
    named: bool
    """Whether the DSN brings an application_name of its own."""


def parse(dsn: str) -> Target:
    """Take a DSN apart. Raises ValueError that says what is wrong, without its password.

    `target_session_attrs` is dropped: only a session that can write is of any use here.
    """
    require_readable(dsn)
    # by hand: urlsplit of newer Pythons takes an IPv6 address for the first of several hosts only
    scheme, separator, rest = dsn.partition("://")
    netloc = re.split("[/?]", rest, maxsplit=1)[0]
    parts = urlsplit(scheme + separator + rest[len(netloc) :])
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    cached = query.pop("statement_cache_size", str(CACHED_STATEMENTS))
    query.pop("target_session_attrs", None)
    user, at, netloc_hosts = netloc.rpartition("@")
    dsns = []
    if netloc_hosts:
        for host in netloc_hosts.split(","):
            dsns.append(urlunsplit(parts._replace(netloc=user + at + host, query=urlencode(query))))
    else:
        for one in _query_hosts(query):
            dsns.append(urlunsplit(parts._replace(netloc=netloc, query=urlencode(one))))
    return Target(tuple(dsns), int(cached), "application_name" in query)


async def connect(target: Target) -> asyncpg.Connection:
    """The first host that accepts writes. Raises NoWritableHost."""
    tasks = [asyncio.create_task(_tried(target, dsn)) for dsn in target.dsns]
    won: asyncpg.Connection | None = None
    errors: dict[str, Exception] = {}
    try:
        for attempt in asyncio.as_completed(tasks):
            dsn, found = await attempt
            if not isinstance(found, Exception):
                won = found
                return won
            errors[dsn] = found
        raise NoWritableHost(errors)
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseException) or isinstance(result[1], Exception):
                continue
            if result[1] is not won:
                result[1].terminate()


async def hang_up(connection: asyncpg.Connection) -> None:
    """End a connection politely where the server listens."""
    try:
        await connection.close(timeout=0.5)
    except CONNECT_ERRORS:
        connection.terminate()


class Session(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """A connection whose prepared statements have names that no other process gives.

    Behind a pooler that does not track statements, ours may meet the server session of another
    gateway. asyncpg counts from one in every process: a statement of the same name and the same
    types, but not the same text, would be run in place of ours, and nobody would notice.
    """

    __slots__ = ()

    def _get_unique_id(self, prefix: str) -> str:  # asyncpg offers no public way
        return f"dedup_{prefix}_{_PROCESS}_{next(_NUMBERS)}"


async def _tried(target: Target, dsn: str) -> tuple[str, asyncpg.Connection | Exception]:
    try:
        return dsn, await _connect_one(target, dsn)
    except CONNECT_ERRORS as error:
        return dsn, error


async def _connect_one(target: Target, dsn: str) -> asyncpg.Connection:
    # Any other session setting in the start-up packet is refused by PgBouncer.
    settings = None if target.named else {"application_name": "dedup-gateway"}
    async with asyncio.timeout(HOST_TIMEOUT):
        connection: asyncpg.Connection = await asyncpg.connect(
            dsn,
            connection_class=Session,
            timeout=HOST_TIMEOUT,
            statement_cache_size=target.cached_statements,
            server_settings=settings,
            target_session_attrs="any",
        )
        with ExitStack() as useless:
            useless.callback(connection.terminate)
            await _require_writable(connection)
            _watch_peer(connection)
            useless.pop_all()
    return connection


async def _require_writable(connection: asyncpg.Connection) -> None:
    # Without a name: the next statement may meet another session of a pooler.
    question = await connection.prepare(READ_ONLY, name="")
    if await question.fetchval():
        raise ReadOnlyHost("it takes no writes: a standby, or read-only")


def _watch_peer(connection: asyncpg.Connection) -> None:
    peer = connection._transport.get_extra_info("socket")  # asyncpg offers no public way
    if peer is None or peer.family not in (socket.AF_INET, socket.AF_INET6):
        return
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 5),
        ("TCP_KEEPINTVL", 2),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", DEAD_PEER_MS),
    ):
        if hasattr(socket, option):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _told(dsn: str, error: Exception) -> str:
    """What became of one host, without anything else of its DSN."""
    parts = urlsplit(dsn)
    place = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "")
    said = sentence(error)
    return said if not place or place in said else f"{place}: {said}"


def _query_hosts(query: dict[str, str]) -> list[dict[str, str]]:
    """`?host=a,b&port=1,2`, one query per host; as it is when it names none."""
    if "host" not in query:
        return [query]
    hosts, ports = query["host"].split(","), query.get("port", "").split(",")
    found = []
    for host, port in zip_longest(hosts, ports[: len(hosts)], fillvalue=ports[0]):
        one = {**query, "host": host}
        if port:
            one["port"] = port
        found.append(one)
    return found


def _kind(errors: list[Exception]) -> str:
    """The `kind` label of a failed connection: the most telling one of several hosts'."""
    for kind, error_class in (
        ("too_many_connections", asyncpg.TooManyConnectionsError),
        ("read_only", ReadOnlyHost),
        ("timeout", TimeoutError),
    ):
        if any(isinstance(error, error_class) for error in errors):
            return kind
    return "connection"
