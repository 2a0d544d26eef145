"""Keys: how long they are kept, and how little their servers are asked."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from gateway.config.local_keys import LONGEST_DOCUMENT
from gateway.core.signature import Unchecked
from gateway.keys import (
    FRESH,
    MOST_CERTIFICATES,
    NEW_CERTIFICATES_A_MINUTE,
    OLDEST,
    KeyStore,
)
from gateway.providers.keyset import Keys
from tests.providers.publishers import Web, certificate, ec_key, jwk, jwks, pem, rsa_key

URL = "https://keys.example.com/jwks"


def published(*kids: str) -> bytes:
    return jwks(*(jwk(ec_key(kid), kid=kid) for kid in kids))


@pytest.fixture
def web() -> Web:
    one = Web()
    one.documents[URL] = published("one")
    return one


def kids(found: Keys | Unchecked) -> list[str | None] | str:
    return found.why if isinstance(found, Unchecked) else [key.kid for key in found]


async def test_a_set_is_fetched_when_it_is_first_wanted_and_then_kept(web: Web) -> None:
    source = web.store().source(URL)
    assert web.fetched == []
    for _ in range(3):
        assert kids(await source.find("one")) == ["one"]
    assert web.fetched == [URL]


async def test_routes_with_one_url_share_its_keys(web: Web) -> None:
    store = web.store()
    first, second = store.source(URL), store.source(URL)
    await first.find(None)
    await second.find(None)
    assert web.fetched == [URL]


async def test_concurrent_deliveries_share_one_fetch(web: Web) -> None:
    gate, fetched = asyncio.Event(), web.fetch

    async def fetch(url: str) -> bytes:
        document = await fetched(url)
        await gate.wait()
        return document

    source = KeyStore(fetch, lambda: web.time).source(URL)
    waiting = [asyncio.ensure_future(source.find(kid)) for kid in ("one", "two", None) * 30]
    await asyncio.sleep(0)
    # One that gives up must not take the others' fetch along.
    waiting.pop(0).cancel()
    await asyncio.sleep(0)
    web.time += 3600
    waiting.append(asyncio.ensure_future(source.find("three")))
    await asyncio.sleep(0)
    web.time -= 3600
    gate.set()
    assert {str(kids(found)) for found in await asyncio.gather(*waiting)} == {"['one']"}
    assert web.fetched == [URL]


async def test_ten_thousand_forged_key_ids_ask_once_a_minute(web: Web) -> None:
    source = web.store().source(URL)
    for number in range(10_000):
        web.time += 0.06
        assert kids(await source.find(f"forged {number}")) == ["one"]
    # Ten minutes of them.
    assert 10 <= len(web.fetched) <= 11


async def test_a_new_key_is_found_a_minute_after_the_last_look(web: Web) -> None:
    source = web.store().source(URL)
    await source.find("one")
    web.documents[URL] = published("one", "two")
    web.time += 59
    assert kids(await source.find("two")) == ["one"]
    web.time += 2
    assert kids(await source.find("two")) == ["one", "two"]
    assert kids(await source.find("one")) == ["one", "two"]


async def test_a_key_that_its_set_leaves_out_is_gone_with_the_next_look(web: Web) -> None:
    source = web.store().source(URL)
    await source.find("one")
    web.documents[URL] = published("two")
    assert kids(await source.find("one")) == ["one"]
    web.time += FRESH + 1
    await source.find("one")
    await asyncio.sleep(0)
    assert kids(await source.find("one")) == ["two"]


async def test_nobody_waits_for_keys_that_are_looked_at_again(web: Web) -> None:
    source = web.store().source(URL)
    await source.find("one")
    web.time += FRESH + 1
    web.documents[URL] = published("one", "two")
    assert kids(await source.find("one")) == ["one"]
    assert len(web.fetched) <= 2
    await asyncio.sleep(0)
    assert kids(await source.find("one")) == ["one", "two"]


async def test_old_keys_serve_while_their_server_is_away_and_for_a_day_at_most(web: Web) -> None:
    source = web.store().source(URL)
    await source.find("one")
    web.is_away = True
    for _ in range(24):
        web.time += OLDEST / 24 - 1
        assert kids(await source.find("one")) == ["one"]
        await asyncio.sleep(0)
    web.time += 60
    assert "answered 503" in kids(await source.find("one"))
    web.is_away = False
    web.time += 60
    assert kids(await source.find("one")) == ["one"]


async def test_an_unknown_key_id_stays_open_while_the_server_is_away(web: Web) -> None:
    source = web.store().source(URL)
    await source.find("one")
    web.time += 61
    web.is_away = True
    assert "answered 503" in kids(await source.find("two"))
    # The minute in which it is not asked again does not make a forgery of it.
    web.time += 30
    assert "answered 503" in kids(await source.find("two"))
    assert kids(await source.find("one")) == ["one"]
    assert len(web.fetched) == 2


async def test_a_server_that_is_away_is_asked_every_ten_seconds(web: Web) -> None:
    web.is_away = True
    source = web.store().source(URL)
    for _ in range(600):
        assert isinstance(await source.find("one"), Unchecked)
        web.time += 0.1
    assert len(web.fetched) == 6
    web.is_away = False
    web.time += 10
    assert kids(await source.find("one")) == ["one"]


@pytest.mark.parametrize(
    "document", [b"", b"<html>", b'{"keys": []}', published(*map(str, range(65)))], ids=range(4)
)
async def test_a_document_without_keys_leaves_those_of_before(web: Web, document: bytes) -> None:
    store = web.store()
    source = store.source(URL)
    await source.find("one")
    web.documents[URL] = document
    web.time += FRESH + 1
    await store.renew()
    assert len(web.fetched) == 2
    assert kids(await source.find("one")) == ["one"]


async def test_what_is_due_is_renewed_before_anybody_asks(web: Web) -> None:
    store = web.store()
    source = store.source(URL)
    await store.renew()
    await store.renew()
    assert web.fetched == [URL]
    web.time += FRESH + 1
    web.documents[URL] = published("two")
    await store.renew()
    assert kids(await source.find("two")) == ["two"]
    assert len(web.fetched) == 2


async def test_a_url_that_no_route_has_any_more_is_forgotten(web: Web) -> None:
    store = web.store()
    source = store.source(URL)
    await source.find("one")
    del source
    gc.collect()
    web.time += FRESH + 1
    await store.renew()
    assert web.fetched == [URL]


async def test_closing_gives_up_what_is_under_way(web: Web) -> None:
    async def never(url: str) -> bytes:
        await asyncio.Event().wait()
        return url.encode()

    store = KeyStore(never, lambda: web.time)
    waiting = asyncio.ensure_future(store.source(URL).find("one"))
    await asyncio.sleep(0)
    await store.close()
    assert isinstance(await waiting, Unchecked)


async def test_a_file_is_read_at_once_and_not_again(web: Web, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(published("one"))
    store = web.store()
    source = store.source(str(file))
    file.write_bytes(published("two"))
    assert kids(await source.find("two")) == ["one"]
    assert kids(await store.source(str(file)).find("two")) == ["two"]


def test_a_file_that_cannot_be_used_says_so(web: Web, tmp_path: Path) -> None:
    store = KeyStore(web.fetch, lambda: web.time)
    with pytest.raises(OSError, match="No such file"):
        store.source(str(tmp_path / "none"))
    file = tmp_path / "keys.pem"
    file.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"keys\.pem has no public key"):
        store.source(str(file))
    file.write_bytes(pem(ec_key("one")) + b"#" * LONGEST_DOCUMENT)
    with pytest.raises(ValueError, match="longer than"):
        store.source(str(file))


def named(number: int) -> str:
    return f"https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-{number}.pem"


async def test_a_certificate_is_kept_once_it_was_had(web: Web) -> None:
    store = web.store()
    web.documents[named(1)] = certificate(rsa_key("one"))
    for _ in range(1000):
        assert kids(await store.certificate(named(1))) == [None]
        web.time += 1
    assert web.fetched == [named(1)]


async def test_ten_thousand_forged_certificates_ask_a_few_times_a_minute(web: Web) -> None:
    store = web.store()
    web.documents[named(0)] = certificate(rsa_key("one"))
    await store.certificate(named(0))
    for number in range(1, 10_001):
        web.time += 0.06
        assert isinstance(await store.certificate(named(number)), Unchecked)
    assert len(web.fetched) <= 11 * NEW_CERTIFICATES_A_MINUTE
    # The genuine one is still there, however many were made up since.
    assert kids(await store.certificate(named(0))) == [None]
    assert web.fetched.count(named(0)) == 1


async def test_a_forged_certificate_is_asked_for_once_a_minute(web: Web) -> None:
    store = web.store()
    for _ in range(600):
        assert isinstance(await store.certificate(named(7)), Unchecked)
        web.time += 1
    assert len(web.fetched) == 10


async def test_only_so_many_certificates_are_kept_and_those_in_use_stay(web: Web) -> None:
    store = web.store()
    for number in range(MOST_CERTIFICATES * 2):
        web.documents[named(number)] = certificate(rsa_key("one"))
        web.time += 10
        await store.certificate(named(number))
        await store.certificate(named(0))
    assert web.fetched.count(named(0)) == 1
    web.time += 60
    await store.certificate(named(1))
    assert web.fetched.count(named(1)) == 2


async def test_deliveries_of_one_new_certificate_share_its_fetch(web: Web) -> None:
    store = web.store()
    web.documents[named(1)] = certificate(rsa_key("one"))
    found = await asyncio.gather(*(store.certificate(named(1)) for _ in range(100)))
    assert {str(kids(one)) for one in found} == {"[None]"}
    assert web.fetched == [named(1)]
