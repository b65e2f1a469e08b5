"""Thousands of processes of one user: launched, listed, abandoned and ended while another user
generates."""

from __future__ import annotations

import asyncio

import pytest
from raw_client import RawClient
from test_storms import neighbour_of, storm

CROWD = 4_000


@pytest.fixture(scope="module")
def crowded(start):
    return start(config="[server]\ndrain_secs = 2\n[runtime]\nwasm_max_instances = 64\n")


async def sleepers(server, count: int, clients: int = 20) -> list[tuple[RawClient, list[str]]]:
    """Clients that have launched inferlets, nearly all of which wait for a place."""
    sleeping = {"inferlet": "hostile@0.1.0", "input": '{"mode": "sleep"}'}

    async def launch(client: RawClient) -> list[str]:
        ask = {"capture_outputs": False, **sleeping}
        return [await client.ask("launch_process", **ask) for _ in range(count // clients)]

    connected = [await RawClient.connect(server.uri, "mallory") for _ in range(clients)]
    launched = await asyncio.gather(*(launch(client) for client in connected))
    return list(zip(connected, launched, strict=True))


@pytest.mark.parametrize("mode", ["lists", "watch", "attach"])
def test_questions_about_a_crowd_hold_up_nobody(crowded, on, mode):
    async def scenario():
        async with neighbour_of(crowded) as is_served:
            crowd = await sleepers(crowded, CROWD)
            async with storm(mode, crowded.port):
                await is_served()
            for client, processes in crowd:
                for process in processes:
                    await client.request("terminate_process", process_id=process)
                await client.close()

    on(scenario())


@pytest.mark.parametrize("how", ["terminate", "leave", "detach"])
def test_the_end_of_a_crowd_holds_up_nobody(crowded, on, how):
    async def scenario():
        async with neighbour_of(crowded) as is_served:
            crowd = await sleepers(crowded, CROWD)

            async def end(client: RawClient, processes: list[str]) -> None:
                if how == "leave":
                    client.abort()
                for process in processes:
                    if how == "detach":
                        await client.request("attach_process", process_id=process)
                    if how != "leave":
                        await client.request("terminate_process", process_id=process)

            served = asyncio.create_task(is_served())
            await asyncio.sleep(0.5)
            await asyncio.gather(*(end(*one) for one in crowd))
            await served
            if how == "leave":
                async with await RawClient.connect(crowded.uri, "mallory") as again:
                    for _, processes in crowd:
                        for process in processes:
                            await again.request("terminate_process", process_id=process)
            for client, _ in crowd:
                client.abort()

    on(scenario())


def test_the_server_stops_with_a_crowd(crowded, on):
    on(sleepers(crowded, CROWD))
    assert crowded.stop() == 0
