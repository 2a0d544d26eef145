"""The load generator: it must not flatter what it measures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench.connection import Connection, LoadFailed
from bench.events import ID_LENGTH, Requests, event_id
from bench.load import Load, Plan

OK = b"HTTP/1.1 200 OK\r\nDedup-Verdict: first\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers after a while, and remembers the bodies."""

    def __init__(self, reply: bytes, *, delay: float = 0.0) -> None:
        self.bodies: list[bytes] = []
        self._reply = reply
        self._delay = delay
        self._connections = 0
        self._ended = asyncio.Semaphore(0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.partition(b"Content-Length: ")[2].split()[0])
                self.bodies.append(await reader.readexactly(length))
                await asyncio.sleep(self._delay)
                writer.write(self._reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self._ended.release()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        listener = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        async with listener:
            yield listener.sockets[0].getsockname()[1]
            for _ in range(self._connections):
                await self._ended.acquire()


@asynccontextmanager
async def connected(plan: Plan) -> AsyncIterator[Load]:
    load = Load(plan)
    await load.connect()
    try:
        yield load
    finally:
        load.close()
        await asyncio.sleep(0)


def plan(port: int, **others: object) -> Plan:
    usual: dict[str, object] = {
        "port": port,
        "run": 1,
        "connections": 4,
        "seconds": 0.2,
        "warm_up": 0.1,
        "first": 0,
        "events": None,
    }
    return Plan(**{**usual, **others})  # type: ignore[arg-type]


def test_an_event_is_valid_json_of_about_500_bytes_with_an_id_of_28_characters() -> None:
    request = Requests(run=1, host="127.0.0.1", port=1).build(7)
    head, _, body = request.partition(b"\r\n\r\n")
    event = json.loads(body)
    assert event["event_id"] == event_id(1, 7).decode()
    assert len(event["event_id"]) == ID_LENGTH
    assert f"Content-Length: {len(body)}".encode() in head
    assert 450 <= len(body) <= 550


async def test_a_closed_loop_sends_a_new_event_with_each_request() -> None:
    server = Server(OK)
    async with server.running() as port, connected(plan(port)) as load:
        replies = await load.run(0.2)
    ids = [json.loads(body)["event_id"] for body in server.bodies]
    assert len(ids) == len(set(ids)) == len(replies.latencies) == replies.next_event
    assert replies.verdicts == {"first": len(ids)}


async def test_known_events_are_sent_again_and_no_others() -> None:
    server = Server(OK)
    async with server.running() as port, connected(plan(port, first=10, events=3)) as load:
        await load.run(0.2)
    assert {json.loads(body)["event_id"] for body in server.bodies} == {
        event_id(1, number).decode() for number in (10, 11, 12)
    }


async def test_doubles_are_two_copies_on_two_connections_and_each_event_comes_once() -> None:
    server = Server(OK, delay=0.01)
    async with server.running() as port, connected(plan(port, copies=2)) as load:
        replies = await load.run(0.2)
    assert len(set(server.bodies)) == replies.next_event
    assert len(server.bodies) == 2 * replies.next_event


async def test_an_open_loop_charges_a_slow_server_for_everything_that_had_to_wait() -> None:
    server = Server(OK, delay=0.05)
    async with server.running() as port, connected(plan(port, connections=1, rate=100.0)) as load:
        replies = await load.run(0.4)
    # One connection does 20 of the 100 a second; with 40 due in 0.4 s, the last waits 1.6 s or so.
    assert max(replies.latencies) > 1.0
    assert len(replies.latencies) == len(server.bodies)


async def test_a_reply_that_is_no_200_ends_the_load() -> None:
    server = Server(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
    async with server.running() as port, connected(plan(port)) as load:
        with pytest.raises(LoadFailed, match="503"):
            await load.run(0.2)


def test_a_reply_in_pieces_counts_when_its_last_byte_is_there() -> None:
    told: list[str] = []
    connection = Connection(lambda _, verdict: told.append(verdict))
    for at in range(len(OK) - 1):
        connection.data_received(OK[at : at + 1])
    assert told == []
    connection.data_received(OK[-1:])
    assert told == ["first"]
