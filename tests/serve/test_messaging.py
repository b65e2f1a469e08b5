"""Inferlets on one server that exchange messages and launch others."""

from __future__ import annotations

import asyncio
import json

from conftest import SESSION, session_client
from raw_client import RawClient


def do(what: str, **more) -> str:
    return json.dumps({"do": what, **more})


def test_a_thousand_subscribers_hear_a_broadcast(start, on):
    server = start(config="[runtime]\nwasm_max_instances = 1300\n")

    async def talk():
        async with await session_client(server) as client:
            listeners = await asyncio.gather(
                *(client.launch(SESSION, do("listen", topic="news")) for _ in range(1000))
            )
            for process in listeners:
                assert await client.event(process) == ("stdout", "listening")
            await client.until_end(await client.launch(SESSION, do("broadcast", topic="news")))
            return [await client.event(process) for process in listeners]

    assert on(talk()) == [("return", "news")] * 1000


async def heard(server, topic: str, listener: str, speaker: str) -> bool:
    """Whether a user receives another user's broadcast."""
    async with (
        await session_client(server, listener) as one,
        await RawClient.connect(server.uri, speaker) as other,
    ):
        process = await one.launch(SESSION, do("listen", topic=topic))
        assert await one.event(process) == ("stdout", "listening")
        await other.until_end(await other.launch(SESSION, do("broadcast", topic=topic)))
        try:
            event = await asyncio.wait_for(one.queue(process).get(), 1)
        except TimeoutError:
            await one.ask("terminate_process", process_id=process)
            return False
        return event["value"] == "news"


def test_topics_are_a_users_own(server, on):
    assert on(heard(server, "news", "ada", "ada"))
    assert on(heard(server, "shared/news", "ada", "ada"))  # one user needs no configuration
    assert not on(heard(server, "news", "ada", "eve"))
    assert not on(heard(server, "shared/news", "ada", "eve"))


def test_shared_topics_by_configuration(start, on):
    server = start(config="[runtime]\nshared_topics = true\n")
    assert on(heard(server, "shared/news", "ada", "eve"))
    assert not on(heard(server, "news", "ada", "eve"))


def test_a_queue_gives_each_message_to_one(server, on):
    async def talk():
        async with await session_client(server) as client:
            takers = await asyncio.gather(
                *(client.launch(SESSION, do("pull", topic="work", n=10)) for _ in range(10))
            )
            await client.until_end(await client.launch(SESSION, do("push", topic="work", n=100)))
            ends = [await client.until_end(process) for process in takers]
            return [number for events in ends for number in json.loads(events[-1][1])]

    assert sorted(on(talk()), key=int) == [str(i) for i in range(100)]


def test_a_queue_is_in_order(server, on):
    async def talk():
        async with await session_client(server) as client:
            taker = await client.launch(SESSION, do("pull", topic="line", n=50))
            await client.until_end(await client.launch(SESSION, do("push", topic="line", n=50)))
            return json.loads((await client.until_end(taker))[-1][1])

    assert on(talk()) == [str(i) for i in range(50)]


def test_children_of_programs_that_are_only_on_disk(start, on):
    """A server that has just started has loaded no program; a guest's launch loads it."""
    server = start()

    async def install():
        async with await session_client(server):
            pass

    on(install())
    server.stop()
    server.start()

    async def talk():
        async with await RawClient.connect(server.uri) as client:
            parent = await client.launch(
                "session", do("spawn", program="session", input=do("fail"))
            )
            failed = await client.until_end(parent)
            parent = await client.launch(
                "session", do("spawn", program="session@0.1.0", input=do("user"))
            )
            worked = await client.until_end(parent)
            deep = "nobody"
            for _ in range(12):
                deep = do(
                    "spawn", program="session", input=deep if deep != "nobody" else do("user")
                )
            too_deep = await client.until_end(await client.launch("session", deep))
            parent = await client.launch("session", do("spawn", program="nobody", input="{}"))
            return failed, worked, too_deep, await client.until_end(parent)

    failed, worked, too_deep, unknown = on(talk())
    assert failed == [("error", "it failed as asked")]
    assert worked == [("return", "ada")]
    assert too_deep[-1][0] == "error" and "deep" in too_deep[-1][1]
    assert unknown[-1][0] == "error" and "nobody" in unknown[-1][1]


def test_a_cancelled_child(server, on):
    async def talk():
        async with await session_client(server) as client:
            process = await client.launch(
                SESSION, do("spawn", program=SESSION, input=do("forever"), cancel=True)
            )
            return await client.until_end(process)

    assert on(talk()) == [("error", "cancelled")]
