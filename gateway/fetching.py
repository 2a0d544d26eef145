"""Fetching: small public documents over https, for the keys that providers publish."""

from __future__ import annotations

import ssl

import aiohttp

from gateway import __version__
from gateway.config.local_keys import LONGEST_DOCUMENT
from gateway.keys import FetchError

# A delivery may wait for it, and senders hang up after three seconds and more.
TIMEOUT = 3.0
# To one host: one fetch is under way for each URL.
CONNECTIONS = 8


class Fetching:
    """One session for the process. Proxies are taken from the environment, as everybody does."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, url: str) -> bytes:
        """A document of up to 256 KiB. Raises FetchError.

        Redirects are not followed: they would lead away from the host that somebody trusts.
        """
        try:
            async with self._open().get(url, allow_redirects=False) as response:
                if response.status != 200:
                    raise FetchError(f"answered {response.status}")
                return await _within(response, LONGEST_DOCUMENT)
        except aiohttp.InvalidURL:
            # Its text is the URL whole, which may have a key or the proxy's password in it.
            raise FetchError("the URL, or that of the proxy, is none") from None
        except TimeoutError:
            raise FetchError(f"no answer within {TIMEOUT:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise FetchError(str(error) or type(error).__name__) from None

    async def close(self) -> None:
        """Let go of its connections."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        """Made when first wanted: most gateways fetch nothing, and trust takes a while to load."""
        if self._session is None:
            trust = ssl.create_default_context()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=trust, limit_per_host=CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={
                    "User-Agent": f"dedup-gateway/{__version__}",
                    "Accept-Encoding": "identity",
                },
                auto_decompress=False,  # a few packed bytes may be gigabytes
                timeout=aiohttp.ClientTimeout(total=TIMEOUT),
                trust_env=True,
            )
        return self._session


async def _within(response: aiohttp.ClientResponse, most: int) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > most:
            raise FetchError(f"longer than {most} bytes")
    return bytes(content)
