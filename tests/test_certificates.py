"""Renewed certificates serve new connections without a restart."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from gateway.certificates import Certificates
from gateway.config import Listen, ServerTls
from tests.rig.certificate import self_signed


async def shown(port: int) -> bytes:
    """The certificate that a client is shown."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return certificate


def der(file: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(file.read_text())


async def test_a_renewed_certificate_is_shown_to_the_next_sender(tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path)
    certificates = Certificates()
    context = certificates.context(Listen("127.0.0.1", 0, ServerTls(str(cert), str(key))))
    assert context is not None
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        before = der(cert)
        assert await shown(port) == before
        self_signed(tmp_path)
        certificates.renew()
        assert await shown(port) == der(cert) != before


async def test_a_half_renewed_pair_is_refused_and_the_old_one_serves_on(tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path)
    certificates = Certificates()
    context = certificates.context(Listen("127.0.0.1", 0, ServerTls(str(cert), str(key))))
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        before, old_key = der(cert), key.read_bytes()
        self_signed(tmp_path)
        key.write_bytes(old_key)
        with pytest.raises(OSError, match="KEY_VALUES_MISMATCH"):
            certificates.renew()
        assert await shown(port) == before
