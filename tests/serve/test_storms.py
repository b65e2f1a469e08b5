"""Floods of each kind, over many connections of one user or of users without a name. Another user's
generations succeed and are hardly slower; the server's memory stays bounded, and it stops in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from conftest import ROOT, install_once
from raw_client import RawClient
from storms import MODES
from test_availability import HOSTILE_MANIFEST, generate, memory_of
from test_hostile_clients import HTTP_MANIFEST

MIB = 1 << 20
COMPONENTS = sorted(path.stem for path in (ROOT / "tests/hostile/corpus/endless").glob("*.wasm"))


@pytest.fixture(scope="module")
def stormy(start):
    return start(config="[server]\ndrain_secs = 2\n[runtime]\nwasm_max_instances = 64\n")


async def slowest_of(client: RawClient, generations: int) -> float:
    """The 99th percentile of their times."""
    times = sorted([await generate(client) for _ in range(generations)])
    return times[-1 - generations // 100]


@contextlib.asynccontextmanager
async def neighbour_of(server) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Returns a function that is called during an attack. It checks that all generations of another
    user succeed, and take hardly longer than without the attack."""
    async with await RawClient.connect(server.uri, "neighbour") as neighbour:
        await install_once(neighbour, "hostile-guest", HOSTILE_MANIFEST)
        await install_once(neighbour, "serve-http-rust", HTTP_MANIFEST)
        await generate(neighbour)
        alone = await slowest_of(neighbour, 40)
        before = memory_of(server)

        async def is_served() -> None:
            await asyncio.sleep(0.5)
            beside = await slowest_of(neighbour, 100)
            # The minimum allows for machines that are busy with other work.
            assert beside < max(10 * alone, 1.0), (alone, beside)

        yield is_served
        grown = memory_of(server) - before
        assert grown < 1024 * MIB, f"{grown >> 20} MiB"


@contextlib.asynccontextmanager
async def storm(mode: str, port: int) -> AsyncIterator[None]:
    script = Path(__file__).with_name("storms.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, script, mode, str(port), "200", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield
        assert process.returncode is None
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_storm_holds_up_nobody(stormy, on, mode):
    async def scenario():
        async with neighbour_of(stormy) as is_served, storm(mode, stormy.port):
            await is_served()

    on(scenario())


@pytest.mark.parametrize("mode", ["not_found", "chunks", "fields", "half_closed"])
def test_a_storm_on_the_port_of_a_daemon_holds_up_nobody(stormy, on, mode):
    async def scenario():
        async with (
            neighbour_of(stormy) as is_served,
            await RawClient.connect(stormy.uri, "mallory") as mallory,
        ):
            daemon = await mallory.ask(
                "launch_daemon", port=0, inferlet="http-echo@0.1.0", input="{}"
            )
            listed = json.loads(await mallory.ask("list_processes"))
            port = next(one["port"] for one in listed if one["process_id"] == daemon)
            async with storm(mode, port):
                await is_served()
            await mallory.ask("terminate_process", process_id=daemon)

    on(scenario())


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_that_never_comes_to_its_function_holds_up_nobody(stormy, on, name):
    manifest = HOSTILE_MANIFEST.replace('name = "hostile"', f'name = "{name}"')
    endless = (ROOT / f"tests/hostile/corpus/endless/{name}.wasm").read_bytes()

    async def scenario():
        async with (
            neighbour_of(stormy) as is_served,
            await RawClient.connect(stormy.uri, "mallory") as mallory,
        ):
            await mallory.install(endless, manifest)
            running = [await mallory.launch(f"{name}@0.1.0", "{}") for _ in range(16)]
            await is_served()
            for process in running:
                await mallory.request("terminate_process", process_id=process)
            for process in running:
                await mallory.until_gone(process)

    on(scenario())


@pytest.mark.parametrize("mode", ["print_lines", "send_small", "send_files", "receive_all"])
def test_an_inferlet_whose_client_does_not_read_holds_up_nobody(stormy, on, mode):
    async def scenario():
        async with (
            neighbour_of(stormy) as is_served,
            await RawClient.connect(stormy.uri, "mallory") as mallory,
        ):
            for _ in range(8):
                await mallory.launch("hostile@0.1.0", f'{{"mode": "{mode}", "n": {16 * MIB}}}')
            mallory._reader.cancel()  # it never reads again
            await is_served()
            mallory.abort()

    on(scenario())


def test_the_server_stops_after_all_storms(stormy):
    assert stormy.stop() == 0
