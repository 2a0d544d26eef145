"""A consumer over TLS, on OpenSSL and blocking sockets.

asyncio's server will not do: when it refuses a client it closes without the alert that others send.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from typing import Self

from tests.upstream.authority import Pair
from tests.upstream.requests import BODY, LONG, OK


class TlsConsumer:
    """Answers each request, and keeps what it read once decrypted."""

    def __init__(self, context: ssl.SSLContext, *, answer: bytes, closes: bool) -> None:
        self.received = bytearray()
        self.connections = 0
        self.names: list[str | None] = []
        """What clients asked for by SNI."""
        self.reads = threading.Event()
        self.reads.set()
        self._answer, self._closes = answer, closes
        self._context = context
        context.sni_callback = lambda _, name, __: self.names.append(name)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.reads.set()
        for opened in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(LONG)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._open.append(connection.dup())
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        session = self._context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
        with session, self._open[self.connections - 1], contextlib.suppress(OSError):
            try:
                session.do_handshake()
                self._answer_all(session)
            except ssl.SSLError:
                socket.socket.shutdown(session, socket.SHUT_WR)
                while socket.socket.recv(session, 2**16):  # left unread, it makes our FIN an RST
                    pass

    def _answer_all(self, session: ssl.SSLSocket) -> None:
        while self.reads.wait(LONG) and (data := session.recv(2**16)):
            self.received += data
            if self.received.endswith((BODY.body, b"the end")):
                session.sendall(self._answer)
                if self._closes:
                    session.unwrap()
                    return


def tls_consumer(
    pair: Pair,
    *,
    clients: str | None = None,
    newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    answer: bytes = OK,
    closes: bool = False,
) -> TlsConsumer:
    """`clients`: the authority whose certificates clients have to show."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = newest
    context.load_cert_chain(pair.cert, pair.key)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients)
    return TlsConsumer(context, answer=answer, closes=closes)
