"""Clients that take all they can get. Others are served meanwhile, and the server stops in time."""

from __future__ import annotations

import asyncio
import signal
import time

import msgpack
import pytest
import websockets
from conftest import ROOT, install_once
from raw_client import RawClient

HOSTILE_MANIFEST = (ROOT / "tests/hostile/guest/Pie.toml").read_text()
CONFIG = """
[server]
drain_secs = 2
[runtime]
wasm_max_instances = 40
"""


@pytest.fixture(scope="module")
def busy_server(start):
    return start(config=CONFIG)


async def attacker(server, user: str = "mallory") -> RawClient:
    client = await RawClient.connect(server.uri, user)
    await install_once(client, "hostile-guest", HOSTILE_MANIFEST)
    return client


async def generate(client: RawClient) -> float:
    """One generation of the neighbour. Returns how long it took."""
    begin = time.monotonic()
    process = await client.ask(
        "launch_process", inferlet="hostile@0.1.0", input='{"mode": "steady"}', capture_outputs=True
    )
    while True:
        event = await client.queue(process).get()
        assert event["event"] != "error", event["value"]
        if event["event"] == "return":
            return time.monotonic() - begin


def memory_of(server) -> int:
    with open(f"/proc/{server.process.pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


def test_launches_of_one_user_leave_places_for_another(busy_server, on):
    async def scenario():
        async with (
            await attacker(busy_server) as mallory,
            await RawClient.connect(busy_server.uri, "neighbour") as neighbour,
        ):
            await generate(neighbour)
            alone = max([await generate(neighbour) for _ in range(10)])
            for _ in range(3):
                await mallory.ask(
                    "launch_process",
                    inferlet="hostile@0.1.0",
                    input='{"mode": "hold_children"}',
                    capture_outputs=True,
                )
            for _ in range(100):
                await mallory.ask(
                    "launch_process",
                    inferlet="hostile@0.1.0",
                    input='{"mode": "loop"}',
                    capture_outputs=True,
                )
            beside = sorted([await generate(neighbour) for _ in range(20)])
            assert beside[-2] < max(10 * alone, 1.0), f"alone {alone}, beside {beside}"

    on(scenario())


def test_a_client_that_does_not_read_costs_little_memory(busy_server, on):
    async def scenario():
        async with await attacker(busy_server) as mallory:
            before = memory_of(busy_server)
            mallory._reader.cancel()  # it never reads again
            frame = msgpack.packb(
                {"type": "signal_process", "process_id": "x" * 1_000_000, "message": "m"}
            )
            try:
                for _ in range(300):
                    await asyncio.wait_for(mallory.socket.send(frame), 2)
            except (TimeoutError, websockets.ConnectionClosed):
                pass  # the server does not read on, or has closed the connection
            async with await RawClient.connect(busy_server.uri, "neighbour") as neighbour:
                await generate(neighbour)
            assert memory_of(busy_server) < before + (200 << 20)
            mallory.abort()

    on(scenario())


@pytest.mark.parametrize(
    "question", [("list_processes", {}), ("query", {"subject": "watch", "record": ""})]
)
def test_long_lists_of_processes_hold_up_nobody(busy_server, on, question):
    async def scenario():
        kind, fields = question
        # The children of the first test's inferlets take all that mallory may have.
        async with (
            await attacker(busy_server, "trudy") as trudy,
            await RawClient.connect(busy_server.uri, "neighbour") as neighbour,
        ):
            sleeper = {"inferlet": "hostile@0.1.0", "input": '{"mode": "sleep"}'}
            launch = {"capture_outputs": False, **sleeper}
            sleepers = [await trudy.ask("launch_process", **launch) for _ in range(2_000)]
            others = [await RawClient.connect(busy_server.uri, "trudy") for _ in range(150)]
            lists = [
                asyncio.create_task(other.ask(kind, **fields))
                for _ in range(10)
                for other in others
            ]
            await asyncio.sleep(0.1)
            waits = []
            for _ in range(20):
                begin = time.monotonic()
                assert await neighbour.ask("ping") == "Pong"
                waits.append(time.monotonic() - begin)
            for other in others:
                other.abort()
            await asyncio.gather(*lists, return_exceptions=True)
            for process in sleepers:
                await trudy.ask("terminate_process", process_id=process)
            assert max(waits) < 0.5, waits

    on(scenario())


def test_a_stranger_may_send_small_messages_only(busy_server, on):
    async def scenario():
        async with websockets.connect(busy_server.uri, compression=None) as stranger:
            frame = {"type": "auth_identify", "corr_id": 1, "username": "x" * 100_000}
            await stranger.send(msgpack.packb(frame))
            with pytest.raises(websockets.ConnectionClosed):
                await stranger.recv()

    on(scenario())


def test_a_busy_server_stops_in_time(busy_server, on):
    async def scenario():
        async with await attacker(busy_server, "eve") as eve:
            for mode in ["hold_children", "loop", "fork_bomb", "wait_for_pass_forever"]:
                await eve.ask(
                    "launch_process",
                    inferlet="hostile@0.1.0",
                    input=f'{{"mode": "{mode}"}}',
                    capture_outputs=True,
                )
            begin = time.monotonic()
            busy_server.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(busy_server.process.wait, 60)
            assert time.monotonic() - begin < 2 + 10
            assert busy_server.process.returncode == 0

    on(scenario())
