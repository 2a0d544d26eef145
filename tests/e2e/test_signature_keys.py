"""Public keys of a running gateway: files that change, and a publisher that is away."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import jwt
import pytest
import pytest_asyncio
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.rig import sender
from tests.rig.certificate import self_signed
from tests.rig.deadline import eventually
from tests.rig.world import World, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

AUDIENCE, EMAIL = "https://hooks.example.com/pushed", "pusher@project.example"


def pem(key: ed25519.Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def discord(event: str, key: ed25519.Ed25519PrivateKey) -> bytes:
    body = json.dumps({"event_id": event}).encode()
    now = str(int(time.time()))
    mark = key.sign(now.encode() + body).hex()
    lines = [("X-Signature-Ed25519", mark), ("X-Signature-Timestamp", now)]
    return sender.request("/hooks/orders", body, headers=lines)


async def test_a_key_file_that_changes_is_taken_up_without_being_asked(
    world: World, tmp_path: Path
) -> None:
    old, new = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))
    file = tmp_path / "discord.pem"
    file.write_bytes(pem(old))
    checked = world.route(signature={"scheme": "discord", "keys": [str(file)]})
    gateway = await world.gateway(world.file(checked))
    assert (await gateway.send(discord(fresh(), old))).verdict == "first"
    assert (await gateway.send(discord(fresh(), new))).status == 401
    # A file may have several, as in a rotation; the place in the metric is that of the file.
    file.write_bytes(pem(old) + pem(new))
    await gateway.logged("config_reloaded", within=30)
    before = await gateway.scrape()
    for key in (old, new):
        assert (await gateway.send(discord(fresh(), key))).verdict == "first"
    after = await gateway.scrape()
    assert after.since(before, "dedup_signatures_total", result="valid", secret="0") == 2
    # One that nobody can read leaves the keys that were there.
    file.write_bytes(b"nothing of use")
    gateway.signal(signal.SIGHUP)
    await gateway.logged("config_invalid", within=20)
    assert (await gateway.send(discord(fresh(), new))).verdict == "first"
    await gateway.end()


class Publisher:
    """Google, with a key of the test's own."""

    def __init__(self, directory: Path) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.certificate, key = self_signed(directory)
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(self.certificate, key)
        self._server: asyncio.Server | None = None
        self.port = 0
        self.asked = 0

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._web = web.Server(self._answer)
        self._server = await loop.create_server(
            self._web, "127.0.0.1", self.port, ssl=self._context, reuse_address=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._web.shutdown(0.05)  # zero would be for ever

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked += 1
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return web.json_response({"keys": [{**public, "kid": "one", "alg": "RS256"}]})

    def push(self, event: str, *, kid: str = "one", **claims: object) -> bytes:
        now = int(time.time())
        said = {
            "iss": "https://accounts.google.com", "aud": AUDIENCE, "email": EMAIL,
            "email_verified": True, "iat": now, "exp": now + 3600, **claims,
        }  # fmt: skip
        token = jwt.encode(said, self.key, algorithm="RS256", headers={"kid": kid})
        body = json.dumps({"event_id": event}).encode()
        lines = [("Authorization", f"Bearer {token}")]
        return sender.request("/hooks/orders", body, headers=lines)


@pytest_asyncio.fixture(loop_scope="module")
async def publisher(tmp_path: Path) -> AsyncIterator[Publisher]:
    one = Publisher(tmp_path)
    await one.start()
    yield one
    await one.stop()


async def test_keys_are_fetched_once_and_outlive_their_publisher_and_reloads_but_no_restart(
    world: World, publisher: Publisher
) -> None:
    keys = [f"https://localhost:{publisher.port}/keys"]
    wanted = {"scheme": "gcp-oidc", "audience": AUDIENCE, "email": EMAIL, "keys": keys}
    file = world.file(world.route(signature=wanted))
    env = {"SSL_CERT_FILE": str(publisher.certificate)}
    gateway = await world.gateway(file, env=env)
    events = [fresh("pushed") for _ in range(20)]
    replies = await sender.volley([gateway.address], [publisher.push(event) for event in events])
    assert {reply.verdict for reply in replies} == {"first"}
    assert (await gateway.send(publisher.push(fresh(), aud="https://elsewhere"))).status == 401
    for number in range(20):  # key ids that nobody has are no reason to ask again and again
        assert (await gateway.send(publisher.push(fresh(), kid=f"x{number}"))).status == 401
    assert publisher.asked == 1
    await publisher.stop()
    assert (await gateway.send(publisher.push(fresh()))).verdict == "first"
    gateway.write(world.file(world.route(signature=wanted, idempotency_key=True)))
    gateway.signal(signal.SIGHUP)
    await gateway.logged("config_reloaded")
    assert (await gateway.send(publisher.push(fresh()))).verdict == "first"
    gateway.kill()
    again = await world.gateway(file, env=env)
    event = fresh("late")
    assert (await again.send(publisher.push(event))).status == 503
    assert await world.database.claim(event) is None
    await publisher.start()

    async def told() -> sender.Reply | None:
        reply = await again.send(publisher.push(event))
        return None if reply.status == 503 else reply

    assert (await eventually(told, within=30, what="the keys")).verdict == "first"
    assert world.attempts(event) == [(1, False)]
    await again.end()
