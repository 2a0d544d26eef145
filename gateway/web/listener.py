"""Listening sockets, opened and closed so that no connection is reset for our restart."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from ssl import SSLContext

# More than a burst of senders between two turns of the loop; the kernel caps it at somaxconn.
BACKLOG = 1024
TLS_HANDSHAKE = 10.0
TLS_SHUTDOWN = 2.0
# Unacknowledged data for this long, also against a closed window, and the kernel gives the peer up:
# the only end for a sender that never reads the last reply of its connection.
PEER_SILENCE = 65.0

Factory = Callable[[], asyncio.Protocol]


class Listener:
    """One address; a name may stand for several sockets."""

    def __init__(self, factory: Factory, ssl: SSLContext | None) -> None:
        self._factory = factory
        self._ssl = ssl
        # Both loops insist on None where there is no TLS.
        self._handshake = None if ssl is None else TLS_HANDSHAKE
        self._shutdown = None if ssl is None else TLS_SHUTDOWN
        self._open: list[tuple[socket.socket, asyncio.Server]] = []

    @property
    def address(self) -> tuple[str, int]:
        """Host and port as bound."""
        host, port, *_ = self._open[0][0].getsockname()
        return str(host), int(port)

    async def open(self, host: str, port: int) -> None:
        """Bind and listen. Raises OSError, and then nothing is left open."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                sock = _bound(socket.socket(family, kind, protocol), address)
                server = await loop.create_server(
                    self._factory,
                    sock=sock,
                    backlog=BACKLOG,
                    ssl=self._ssl,
                    ssl_handshake_timeout=self._handshake,
                    ssl_shutdown_timeout=self._shutdown,
                )
                self._open.append((sock, server))
        except OSError:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop listening; what the kernel has connected already is taken, or it would be reset."""
        late: list[socket.socket] = []
        for sock, server in self._open:
            late += _accepted(sock)
            server.close()
        self._open.clear()
        await asyncio.gather(*map(self._adopt, late))

    async def _adopt(self, sock: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._factory,
                sock,
                ssl=self._ssl,
                ssl_handshake_timeout=self._handshake,
                ssl_shutdown_timeout=self._shutdown,
            )
        except OSError:  # a handshake that failed or never came
            sock.close()


async def open_listener(factory: Factory, host: str, port: int, ssl: SSLContext | None) -> Listener:
    """Raises OSError."""
    opened = Listener(factory, ssl)
    await opened.open(host, port)
    return opened


def _bound(sock: socket.socket, address: tuple[object, ...]) -> socket.socket:
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # inherited by accepted sockets
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(PEER_SILENCE * 1000))
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        place = f"{address[0]}:{address[1]}"
        raise OSError(error.errno, f"cannot listen on {place}: {error.strerror}") from error
    return sock


def _accepted(sock: socket.socket) -> list[socket.socket]:
    taken: list[socket.socket] = []
    while True:
        try:
            connection, _ = sock.accept()
        except OSError:  # nothing left to take
            return taken
        connection.setblocking(False)
        taken.append(connection)
