"""Batches whose bodies are odd: in another encoding, or with numbers that nobody reads."""

from __future__ import annotations

import pytest

from gateway.core.answer import Answer, Duplicate
from tests.flow.batched import FILTER, bring, carried
from tests.flow.world import MakeWorld, World, delivery


async def send(world: World, encoding: str, *ids: str, more: str = "") -> Answer:
    text = ",".join(f'{{"id":"{event_id}"{more}}}' for event_id in ids)
    return await world.receiver.receive(delivery()._replace(body=f"[{text}]".encode(encoding)))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
async def test_a_mixed_batch_in_another_encoding_goes_whole_and_marked(
    make_world: MakeWorld, encoding: str
) -> None:
    world = make_world(batch=FILTER)
    await bring(world, "a")
    await send(world, encoding, "a", "b")
    assert carried(world.consumer.last) == ["a", "b"]
    assert world.consumer.last.marked
    assert isinstance(await send(world, encoding, "b", "a"), Duplicate)


async def test_a_number_of_any_length_beside_an_id_changes_nothing(make_world: MakeWorld) -> None:
    world = make_world(batch=FILTER)
    more = f', "n":{"7" * 5000}'
    await send(world, "utf-8", "a", more=more)
    await send(world, "utf-8", "a", "b", more=more)
    assert world.consumer.last.body == f'[{{"id":"b"{more}}}]'.encode()
    assert not world.consumer.last.marked
