"""A certificate that a delivery names, had from its host over TLS and through a proxy."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from gateway.core.signature import Flaw, Invalid, Unchecked, Valid
from gateway.fetching import Fetching
from gateway.keys import KeyStore
from gateway.providers import schemes
from tests.providers.certified import NOTIFICATION, ROUTE, SNS_URL, posted, sns
from tests.providers.publishers import NOW, certificate, rsa_key
from tests.rig.certificate import self_signed

HOST = urlsplit(SNS_URL).hostname or ""


class Internet:
    """A proxy behind which every name leads to one server, which has one certificate to give."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self.connected: list[str] = []
        self.asked: list[str] = []

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """As SNS's host."""
        self.asked.append(request.path)
        return web.Response(body=certificate(rsa_key("one")))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[int]:
        """The proxy's port."""
        loop = asyncio.get_running_loop()
        server = web.Server(self.answer)
        behind = await loop.create_server(server, "127.0.0.1", 0, ssl=self._context)
        port = behind.sockets[0].getsockname()[1]

        async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connected.append((await reader.readuntil(b"\r\n\r\n")).split()[1].decode())
            onward = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await asyncio.gather(_copy(reader, onward[1]), _copy(onward[0], writer))

        async with await asyncio.start_server(tunnel, "127.0.0.1", 0) as proxy:
            yield proxy.sockets[0].getsockname()[1]
        behind.close()
        await server.shutdown(1)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
async def internet(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Internet]:
    """Whose server proves itself to be of that name."""
    files = self_signed(tmp_path, request.param)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*files)
    one = Internet(context)
    async with one.open() as port:
        monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        for name in ("https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield one


@pytest.mark.parametrize("internet", [HOST], indirect=True)
async def test_a_hundred_first_deliveries_fetch_their_certificate_once(internet: Internet) -> None:
    fetching = Fetching()
    store = KeyStore(fetching.fetch, asyncio.get_running_loop().time)
    verifier = schemes.verifier(ROUTE["aws-sns"], store)
    genuine, forged = posted(sns(NOTIFICATION)), posted(sns(NOTIFICATION, name="two"))
    answers = await asyncio.gather(
        *(verifier.check(one, NOW) for one in (genuine, forged) for _ in range(50))
    )
    assert answers == [Valid(0)] * 50 + [Invalid(Flaw.WRONG)] * 50
    assert internet.connected == [f"{HOST}:443"]
    assert internet.asked == [urlsplit(SNS_URL).path]
    await store.close()
    await fetching.close()


@pytest.mark.parametrize("internet", ["localhost"], indirect=True)
async def test_a_host_that_cannot_prove_its_name_tells_nothing(internet: Internet) -> None:
    fetching = Fetching()
    store = KeyStore(fetching.fetch, asyncio.get_running_loop().time)
    verifier = schemes.verifier(ROUTE["aws-sns"], store)
    assert isinstance(await verifier.check(posted(sns(NOTIFICATION)), NOW), Unchecked)
    assert internet.connected == [f"{HOST}:443"]
    assert internet.asked == []
    await store.close()
    await fetching.close()
