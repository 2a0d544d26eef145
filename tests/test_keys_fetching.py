"""Fetching keys from a real server over TLS."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from gateway import fetching
from gateway.config.local_keys import LONGEST_DOCUMENT
from gateway.fetching import Fetching
from gateway.keys import FetchError, KeyStore
from tests.providers.publishers import ec_key, jwk, jwks
from tests.rig.certificate import self_signed

KEYS = jwks(jwk(ec_key("one"), kid="one"))


class Publisher:
    """A provider's server, which notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[web.BaseRequest] = []
        self.address = ""
        self.is_over = asyncio.Event()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request)
        match request.path:
            case "/keys":
                answer = web.Response(body=KEYS)
                answer.set_cookie("session", "1")
                return answer
            case "/moved":
                raise web.HTTPFound("/keys")
            case "/long":
                return web.Response(body=b" " * (LONGEST_DOCUMENT + 1))
            case "/longest":
                return web.Response(body=b" " * LONGEST_DOCUMENT)
            case "/packed":
                packed = gzip.compress(b" " * 50 * 2**20)
                return web.Response(body=packed, headers={"Content-Encoding": "gzip"})
            case "/endless":
                return await self._endless(request)
            case "/never":
                await self.is_over.wait()
        raise web.HTTPNotFound

    async def _endless(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while not self.is_over.is_set():
            await answer.write(b" " * 10_000)
            await asyncio.sleep(0)  # a write to a connection that is gone never waits
        return answer


@pytest.fixture
async def publisher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Publisher]:
    certificate, key = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    one = Publisher()
    server = web.Server(one.answer)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, ssl=context)
    one.address = f"https://localhost:{listener.sockets[0].getsockname()[1]}"
    yield one
    listener.close()
    one.is_over.set()
    await server.shutdown(1)


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetching]:
    one = Fetching()
    yield one
    await one.close()


async def test_a_document_is_had_as_it_is(publisher: Publisher, fetcher: Fetching) -> None:
    assert await fetcher.fetch(publisher.address + "/keys") == KEYS
    longest = await fetcher.fetch(publisher.address + "/longest")
    assert len(longest) == LONGEST_DOCUMENT
    assert publisher.asked[0].headers["User-Agent"].startswith("dedup-gateway/")


async def test_nothing_is_remembered_of_one_answer_for_the_next(
    publisher: Publisher, fetcher: Fetching
) -> None:
    for _ in range(2):
        await fetcher.fetch(publisher.address + "/keys")
    assert "Cookie" not in publisher.asked[1].headers


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/moved", "answered 302"),
        ("/none", "answered 404"),
        ("/long", "longer than"),
        ("/endless", "longer than"),
    ],
)
async def test_what_is_no_short_document_is_not_taken(
    publisher: Publisher, fetcher: Fetching, path: str, why: str
) -> None:
    with pytest.raises(FetchError, match=why):
        await fetcher.fetch(publisher.address + path)
    assert len(publisher.asked) == 1


async def test_what_comes_packed_is_not_unpacked(publisher: Publisher, fetcher: Fetching) -> None:
    assert len(await fetcher.fetch(publisher.address + "/packed")) < LONGEST_DOCUMENT
    assert publisher.asked[0].headers["Accept-Encoding"] == "identity"


async def test_a_server_that_never_answers_is_given_up(
    publisher: Publisher, fetcher: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "TIMEOUT", 0.05)
    with pytest.raises(FetchError, match="no answer within"):
        await fetcher.fetch(publisher.address + "/never")


async def test_a_server_that_nobody_vouches_for_is_not_asked(
    publisher: Publisher, fetcher: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(FetchError, match="certificate"):
        await fetcher.fetch(publisher.address + "/keys")
    assert publisher.asked == []


async def test_a_server_under_another_name_is_not_asked(
    publisher: Publisher, fetcher: Fetching
) -> None:
    with pytest.raises(FetchError, match="certificate"):
        await fetcher.fetch(publisher.address.replace("localhost", "127.0.0.1") + "/keys")
    assert publisher.asked == []


@pytest.mark.parametrize(
    "url", ["https://localhost:1/keys", "https://", "https://a b/", "nonsense"]
)
async def test_no_server_at_all_is_a_fetch_error(
    publisher: Publisher, fetcher: Fetching, url: str
) -> None:
    with pytest.raises(FetchError):
        await fetcher.fetch(url)


async def test_no_fault_shows_a_key_of_the_url_or_a_password_of_the_proxy(
    fetcher: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    for proxy in ("", "user:hunter2@proxy:3128", "http://user:hunter2@proxy:99999"):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch("https://localhost:99999/keys?key=hunter3")
        assert "hunter" not in str(caught.value)


async def test_a_proxy_of_the_environment_is_used(
    publisher: Publisher, fetcher: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append(await reader.readline())
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        with pytest.raises(FetchError):
            await fetcher.fetch("https://www.googleapis.com/oauth2/v3/certs")
    assert lines == [b"CONNECT www.googleapis.com:443 HTTP/1.1\r\n"]


async def test_deliveries_get_their_keys_from_the_server(
    publisher: Publisher, fetcher: Fetching
) -> None:
    store = KeyStore(fetcher.fetch, asyncio.get_running_loop().time)
    source = store.source(publisher.address + "/keys")
    found = await asyncio.gather(*(source.find("one") for _ in range(50)))
    assert all(isinstance(keys, tuple) and keys[0].kid == "one" for keys in found)
    assert len(publisher.asked) == 1
    await store.close()


async def test_what_was_never_used_can_be_closed() -> None:
    await Fetching().close()
