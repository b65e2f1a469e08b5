"""A crowd of clients at one server: most are idle, one in ten generates, and three misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from pathlib import Path

import websockets
from reliability_server import RawClient, Server, add_program, raise_file_limit

SESSION = "session@0.1.0"
TOKENS = 50
AT_ONCE = 64  # handshakes


class Crowd:
    def __init__(self, server: Server, size: int) -> None:
        self.server, self.size = server, size
        self.clients: list[RawClient] = []
        self.times: list[float] = []
        self.errors: list[str] = []

    async def connect(self) -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with slots:
                try:
                    client = await RawClient.connect(
                        self.server.uri, user=f"user {number % 100}", open_timeout=120
                    )
                    self.clients.append(client)
                except Exception as error:
                    self.errors.append(f"connect: {error!r}")

        await asyncio.gather(*(one(number) for number in range(self.size)))

    async def generate(self, client: RawClient) -> None:
        begin = time.monotonic()
        try:
            words = json.dumps({"do": "generate", "n": TOKENS})
            events = await client.until_end(await client.launch(SESSION, words))
            if events[-1][0] != "return":
                self.errors.append(f"generate: {events[-1][1]}")
        except Exception as error:
            self.errors.append(f"generate: {error!r}")
        self.times.append(time.monotonic() - begin)

    async def generate_all(self) -> None:
        await asyncio.gather(*(self.generate(client) for client in self.clients[::10]))

    async def ping_all(self) -> None:
        """Checks that the idle clients are still connected."""
        for client in self.clients:
            try:
                await client.ask("ping")
            except Exception as error:
                self.errors.append(f"ping: {error!r}")


async def never_read(uri: str) -> None:
    """Sends many requests, and reads no response."""
    socket = await websockets.connect(uri, max_size=None, compression=None)
    client = RawClient(socket)
    await client.ask("auth_identify", username="deaf")
    await client.launch(SESSION, json.dumps({"do": "count", "n": 10_000_000}))
    socket.transport.pause_reading()
    await asyncio.sleep(3600)


async def send_slowly(uri: str) -> None:
    """Sends a byte of its request every second, on connection after connection."""
    host, port = uri.removeprefix("ws://").rsplit(":", 1)
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(host, int(port))
            for byte in b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n":
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(1)


async def reconnect(uri: str) -> None:
    """Connects and leaves a hundred times a second."""
    while True:
        with contextlib.suppress(Exception):
            client = await RawClient.connect(uri, user="restless")
            client.abort()
        await asyncio.sleep(0.01)


async def measure(clients: int) -> dict[str, float]:
    raise_file_limit()
    with tempfile.TemporaryDirectory() as folder:
        add_program(Path(folder), "serve-session-rust", "tests/serve/session/rust/Pie.toml")
        server = Server(Path(folder))
        nuisances = []
        try:
            crowd = Crowd(server, clients)
            await crowd.connect()
            nuisances = [
                asyncio.create_task(work(server.uri))
                for work in (never_read, send_slowly, reconnect)
            ]
            await asyncio.sleep(1)
            for _ in range(3):
                await crowd.generate_all()
            await crowd.ping_all()
        finally:
            for task in nuisances:
                task.cancel()
            server.kill()
            await asyncio.gather(*nuisances, return_exceptions=True)
            for client in crowd.clients:
                client.abort()
        for error in crowd.errors[:5]:
            print(f"clients: {error}")
        p99 = statistics.quantiles(crowd.times, n=100)[98] if len(crowd.times) > 1 else 0.0
        return {
            "soak_clients": clients,
            "soak_clients_errors": len(crowd.errors),
            "soak_clients_p50_s": round(statistics.median(crowd.times or [0.0]), 3),
            "soak_clients_p99_s": round(p99, 3),
        }
