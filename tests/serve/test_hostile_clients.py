"""Clients and strangers that attack the server: others are served, and memory stays bounded."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import socket
import ssl
import struct
import sys
import time

import msgpack
import pytest
import websockets
from conftest import ROOT, install_once, self_signed
from raw_client import RawClient, Refused
from test_availability import HOSTILE_MANIFEST, attacker, generate, memory_of

HTTP_MANIFEST = (ROOT / "tests/serve/http/rust/Pie.toml").read_text()
HOSTILE = "hostile@0.1.0"
MIB = 1 << 20


@pytest.fixture(scope="module")
def attacked(start):
    return start(config="[server]\ndrain_secs = 2\n")


async def neighbour_of(server) -> RawClient:
    """A client of another user, who has generated once."""
    client = await RawClient.connect(server.uri, "neighbour")
    await install_once(client, "hostile-guest", HOSTILE_MANIFEST)
    await generate(client)
    return client


async def slowest_ping(client: RawClient, seconds: float = 1.5) -> float:
    """The longest that a ping takes within a while."""
    end = time.monotonic() + seconds
    slowest = 0.0
    while time.monotonic() < end:
        begin = time.monotonic()
        assert await client.ask("ping") == "Pong"
        slowest = max(slowest, time.monotonic() - begin)
        await asyncio.sleep(0.002)
    return slowest


# --- memory


@pytest.mark.parametrize("kind", ["upload", "check"])
def test_long_names_are_refused(attacked, on, kind):
    """Names and hashes are copied into queues and tables, so they must be short."""

    async def scenario():
        before = memory_of(attacked)
        clients = [await RawClient.connect(attacked.uri, "mallory") for _ in range(8)]
        long = "x" * (16 * MIB)
        for client in clients:
            for number in range(8):
                if kind == "upload":
                    fields = {
                        "program_hash": f"{number}{long}",
                        "manifest": "",
                        "force_overwrite": False,
                        "chunk_index": 0,
                        "total_chunks": 2,
                        "chunk_data": b"x",
                    }
                    await client.send("add_program", corr_id=number, **fields)
                else:
                    fields = {"name": f"{number}{long}", "version": ""}
                    client._waiting[number] = asyncio.get_running_loop().create_future()
                    await client.send("check_program", corr_id=number, **fields)
        async with await neighbour_of(attacked) as neighbour:
            await generate(neighbour)
            grown = memory_of(attacked) - before
        for client in clients:
            client.abort()
        assert grown < 300 * MIB, f"{grown >> 20} MiB"

    on(scenario())


def test_a_client_that_takes_no_events_holds_up_nobody(start, on):
    """Responses are sent before events, so a client can launch without end and take no event. The
    test has a server of its own, because ended processes whose end no client has seen stay for a
    while.
    """
    # A server of its own: the processes whose end nobody has seen stay for a while.
    attacked = start(config="[server]\ndrain_secs = 2\n")

    async def scenario():
        async with (
            await attacker(attacked) as mallory,
            await neighbour_of(attacked) as neighbour,
        ):
            mallory._reader.cancel()
            await asyncio.sleep(0)
            launch = {
                "type": "launch_process",
                "corr_id": 7,
                "inferlet": HOSTILE,
                "input": '{"mode": "fail"}',
                "capture_outputs": True,
            }
            frame = msgpack.packb(launch)
            before = memory_of(attacked)
            stop = False

            async def storm():
                # It reads one frame for each launch. Responses come first, so these are responses.
                with contextlib.suppress(websockets.ConnectionClosed):
                    for _ in range(2_000):
                        await mallory.socket.send(frame)
                    while not stop:
                        await mallory.socket.send(frame)
                        await mallory.socket.recv()

            storming = asyncio.create_task(storm())
            slowest = await slowest_ping(neighbour, 8)
            times = sorted([await generate(neighbour) for _ in range(20)])
            stop = True
            mallory.abort()
            await asyncio.gather(storming, return_exceptions=True)
            grown = memory_of(attacked) - before
            assert slowest < 1.0, slowest
            assert times[len(times) // 2] < 1.0, times
            assert grown < 500 * MIB, f"{grown >> 20} MiB"

    on(scenario())


async def http_user(server, user: str) -> RawClient:
    client = await RawClient.connect(server.uri, user)
    await install_once(client, "serve-http-rust", HTTP_MANIFEST)
    return client


def test_a_line_without_an_end_has_a_limit(attacked, on):
    """The size line of a chunk may have extensions, which the parser skips when all have come."""

    async def scenario():
        async with await http_user(attacked, "mallory"), await neighbour_of(attacked) as neighbour:
            before = memory_of(attacked)

            def send() -> int:
                sent = 0
                with socket.create_connection(("127.0.0.1", attacked.port), timeout=10) as plain:
                    head = "POST /apps/http-echo/echo HTTP/1.1\r\nHost: localhost\r\n"
                    plain.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n5;".encode())
                    with contextlib.suppress(OSError):
                        while sent < 600 * MIB:
                            plain.sendall(b"x" * MIB)
                            sent += MIB
                return sent

            sent = await asyncio.to_thread(send)
            grown = memory_of(attacked) - before
            await generate(neighbour)
            assert sent < 600 * MIB, "the server read a line of 600 MiB"
            assert grown < 100 * MIB, f"{grown >> 20} MiB"

    on(scenario())


def test_inputs_of_daemons_are_short(attacked, on):
    """Each request to a daemon gets a copy of its input, made by the thread of all connections."""

    async def scenario():
        async with await http_user(attacked, "mallory") as mallory:
            with pytest.raises(Refused, match="each request gets a copy"):
                await mallory.ask(
                    "launch_daemon", port=0, inferlet="http-echo@0.1.0", input="x" * (2 * MIB)
                )

    on(scenario())


# --- the thread of all connections


def test_a_manifest_with_a_long_key_is_refused(attacked, on):
    """Each part of a key is a table, and the tables used to be destroyed by recursion."""

    async def scenario():
        key = ".".join(["a"] * 130_000)
        async with await RawClient.connect(attacked.uri, "mallory") as mallory:
            with pytest.raises(Refused, match="more than 128 dots"):
                await mallory.install(b"\0asm", f"{key} = 1\n")
            assert await mallory.ask("ping") == "Pong"

    on(scenario())


def test_unknown_processes_are_looked_up_quickly(attacked, on):
    """A terminate must not look at every process."""

    async def scenario():
        async with (
            await attacker(attacked) as mallory,
            await neighbour_of(attacked) as neighbour,
        ):
            sleeper = {"inferlet": HOSTILE, "input": '{"mode": "sleep"}', "capture_outputs": False}
            sleepers = [await mallory.ask("launch_process", **sleeper) for _ in range(3_000)]
            others = [await RawClient.connect(attacked.uri, "mallory") for _ in range(60)]
            asked = []
            for other in others:
                for _ in range(200):
                    asked.append(
                        asyncio.create_task(
                            other.request("terminate_process", process_id="no-such-process")
                        )
                    )
            await asyncio.sleep(0)
            slowest = await slowest_ping(neighbour, 1.5)
            for other in others:
                other.abort()
            await asyncio.gather(*asked, return_exceptions=True)
            for process in sleepers:
                await mallory.ask("terminate_process", process_id=process)
            assert slowest < 0.5, slowest

    on(scenario())


def test_a_place_within_a_character_is_no_error(attacked, on):
    """The query `output` takes any place in the text, also one that no character begins at."""

    async def scenario():
        async with await attacker(attacked) as mallory:
            process = await mallory.launch(HOSTILE, '{"mode": "ä"}', seen=0)
            await mallory.until_end(process)
            record = f"{process} 0"
            whole = json.loads(await mallory.ask("query", subject="output", record=record))
            assert whole["text"].endswith("ä")
            record = f"{process} {whole['next'] - 1}"
            await mallory.ask("query", subject="output", record=record)

    on(scenario())


# --- places


def test_running_processes_of_one_user_leave_places_for_another(start, on):
    server = start(config="[server]\nmax_concurrent_processes = 20\n")

    async def scenario():
        async with (
            await neighbour_of(server) as neighbour,
            await attacker(server) as mallory,
        ):
            with pytest.raises(Refused, match="max_concurrent_processes"):
                for _ in range(20):
                    await mallory.launch(HOSTILE, '{"mode": "sleep"}')
            await generate(neighbour)

    on(scenario())


def test_strangers_of_one_address_leave_places_for_another(start, on):
    """Strangers who reconnect all the time never become old enough to give way because of age."""
    server = start(config="[server]\nmax_connections = 30\n")

    async def come_and_go(stop: asyncio.Event) -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                await asyncio.sleep(0.5)
                writer.transport.abort()

    async def scenario():
        stop = asyncio.Event()
        crowd = [asyncio.create_task(come_and_go(stop)) for _ in range(120)]
        await asyncio.sleep(1)
        for _ in range(5):
            other = await RawClient.connect(server.uri, "other", local_addr=("127.0.0.2", 0))
            assert await other.ask("ping") == "Pong"
            await other.close()
            await asyncio.sleep(0.3)
        stop.set()
        await asyncio.gather(*crowd)

    on(scenario())


# --- the thread of all connections


async def middle_ping(client: RawClient, count: int = 100) -> float:
    times = []
    for _ in range(count):
        begin = time.monotonic()
        assert await client.ask("ping") == "Pong"
        times.append(time.monotonic() - begin)
    return sorted(times)[count // 2]


def test_small_messages_of_many_connections_hold_up_nobody(attacked, on):
    """Users take turns; without that, a ping waits for a message of each of the connections."""

    async def scenario():
        async with await RawClient.connect(attacked.uri, "neighbour") as neighbour:
            alone = await middle_ping(neighbour)
            script = ROOT / "tests/serve/small_messages.py"
            flood = await asyncio.create_subprocess_exec(
                sys.executable, script, str(attacked.port), "900", stdout=asyncio.subprocess.PIPE
            )
            try:
                assert await flood.stdout.readline() == b"ready\n"
                await asyncio.sleep(1)
                beside = await middle_ping(neighbour)
                assert flood.returncode is None
            finally:
                flood.kill()
                await flood.wait()
            assert beside < max(20 * alone, 0.01), (alone, beside)

    on(scenario())


def test_a_flood_of_control_frames_ends_the_connection(attacked, on):
    """WebSocket pings are answered below the messages, where users do not take turns."""

    async def scenario():
        async with await RawClient.connect(attacked.uri, "ada") as client:
            for _ in range(20):
                await (await client.socket.ping())
            assert await client.ask("ping") == "Pong"
            with contextlib.suppress(websockets.ConnectionClosed):
                for _ in range(2_000):
                    await client.socket.ping()
            await asyncio.wait_for(client.closed.wait(), 30)

    on(scenario())


# --- the disk


def open_websocket(port: int) -> socket.socket:
    """A connection on which the test can send any frames."""
    key = base64.b64encode(os.urandom(16)).decode()
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(
        f"GET / HTTP/1.1\r\nHost: localhost:{port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        "\r\n".encode()
    )
    assert connection.recv(4096).startswith(b"HTTP/1.1 101")
    return connection


TAKEN_MOST = 24 * MIB  # bytes that the system's buffers may hold for a connection


def taken_of(connection: socket.socket, frames: bytes) -> int:
    """Sends these frames again and again. Returns how many bytes the server read until it closed
    the connection, stopped reading for a while, or read far too much."""
    connection.settimeout(2)
    taken = 0
    with contextlib.suppress(OSError):
        while taken < 4 * TAKEN_MOST:
            taken += connection.send(frames[taken % len(frames) :])
    return taken


@pytest.mark.parametrize("after", ["refusal", "nothing"])
def test_floods_that_make_no_message_are_hardly_read(start, on, after):
    """Users take turns by message, so frames without a message must not take the server's time."""
    server = start(config="[server]\nauth_timeout_secs = 3\n")

    def flood() -> int:
        with open_websocket(server.port) as connection:
            if after == "nothing":
                # A message whose fragments are all empty.
                connection.sendall(b"\x02\x80\0\0\0\0")
                return taken_of(connection, b"\x00\x80\0\0\0\0" * 10_000)
            connection.sendall(b"\x81\x80\0\0\0\0")  # an empty text: messages must be binary
            closing = connection.recv(4096)
            assert closing[0] == 0x88 and b"must be binary" in closing
            message = b"\x82\xff" + struct.pack(">Q", 65536) + bytes(4 + 65536)
            return taken_of(connection, message * 16)

    async def scenario():
        async with await RawClient.connect(server.uri, "neighbour") as neighbour:
            await install_once(neighbour, "hostile-guest", HOSTILE_MANIFEST)
            results = asyncio.gather(*(asyncio.to_thread(flood) for _ in range(8)))
            while not results.done():
                await generate(neighbour)
            assert max(await results) < TAKEN_MOST, [taken >> 20 for taken in await results]

    on(scenario())
    assert server.stop() == 0


def test_failing_http_inferlets_do_not_fill_the_log(start, on):
    server = start()

    async def scenario():
        async with await http_user(server, "mallory") as mallory:
            daemon = await mallory.ask(
                "launch_daemon", port=0, inferlet="http-echo@0.1.0", input="{}"
            )
            listed = json.loads(await mallory.ask("list_processes"))
            port = next(one["port"] for one in listed if one["process_id"] == daemon)

            def storm() -> None:
                request = b"GET /trap HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                for _ in range(3_000):
                    with socket.create_connection(("127.0.0.1", port)) as plain:
                        plain.sendall(request)
                        while plain.recv(65536):
                            pass

            await asyncio.to_thread(storm)

    on(scenario())
    assert (server.home / "server.log").stat().st_size < 6 * MIB


# --- TLS


def client_hello() -> bytes:
    """The first message of a handshake. It costs nothing to send it again and again."""
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return outgoing.read()


FLOOD = 100


def test_a_flood_of_handshakes_holds_up_nobody(start, on, tmp_path):
    certificate, key = self_signed(tmp_path, "rsa:4096")  # its handshakes are expensive
    server = start(
        config=f'[server]\ntls_cert = "{certificate}"\ntls_key = "{key}"\ndrain_secs = 2\n'
    )
    trusted = ssl.create_default_context(cafile=str(certificate))
    hello = client_hello()

    finished = 0  # handshakes of the flood for which the server has signed

    async def begin_handshakes(stop: asyncio.Event) -> None:
        nonlocal finished
        while not stop.is_set():
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(hello)
                await reader.readexactly(1)
                finished += 1
                writer.transport.abort()

    # The test measures how long a client waits in handshakes of the flood: FLOOD handshakes always
    # wait. On a machine that is busy with other work, everything takes longer, but the order is the
    # same.
    async def handshakes_during(work) -> int:
        before = finished
        await work
        return finished - before

    async def scenario():
        async with await RawClient.connect(server.uri, "neighbour", ssl=trusted) as neighbour:
            await install_once(neighbour, "hostile-guest", HOSTILE_MANIFEST)
            await generate(neighbour)
            stop = asyncio.Event()
            flood = [asyncio.create_task(begin_handshakes(stop)) for _ in range(FLOOD)]
            while finished < FLOOD:
                await asyncio.sleep(0.01)
            # A client that is already connected does not wait for handshakes.
            pings = [await handshakes_during(neighbour.ask("ping")) for _ in range(100)]
            for _ in range(20):
                await generate(neighbour)
            # A new client from another address does not wait for the flood.
            connecting = RawClient.connect(
                server.uri, "other", ssl=trusted, local_addr=("127.0.0.2", 0)
            )
            others = asyncio.create_task(connecting)
            waited = await handshakes_during(others)
            await others.result().close()
            stop.set()
            await asyncio.gather(*flood)
            assert max(pings) < FLOOD / 2, pings
            assert waited < FLOOD / 2, waited

    on(scenario())
    begin = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - begin < 2 + 10
