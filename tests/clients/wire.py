"""A proxy between a client and its server that can cut, stall and damage a connection, and servers
that break the protocol. Each runs in its own thread, so that tests can wait for drivers."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import blake3
import msgpack
import websockets
from world import LIMIT_S


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def run(self, coroutine: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await coroutine

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(LIMIT_S)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


class Proxy:
    """Passes bytes on to a server. A method below changes how later bytes are treated.

    With `certificates`, a folder, it is a server of TLS itself, with a certificate of its own that
    clients trust, and a client of TLS at the server.
    """

    def __init__(self, loop: Loop, target: int, certificates: Path | None = None) -> None:
        self._loop = loop
        self._target = target
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._spoil_after: int | None = None
        self._cut_after_down: int | None = None
        self._stalled = False
        self._up_tls, down_tls = None, None
        if certificates:
            self._up_tls = ssl.create_default_context(cafile=certificates / "ca.pem")
            down_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            down_tls.load_cert_chain(certificates / "other.pem", certificates / "other-key.pem")
        listening = asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=down_tls)
        self._server = loop.run(listening)
        self.port = self._server.sockets[0].getsockname()[1]

    def spoil(self, after: int) -> None:
        """Changes one byte that a client sends, `after` bytes from now."""
        self._spoil_after = after

    def stall(self) -> None:
        """Drops what clients send."""
        self._stalled = True

    def cut(self, after_down: int | None = None) -> None:
        """Breaks every connection, at once or when the server has sent `after_down` more bytes."""
        self._stalled = False
        if after_down is not None:
            self._cut_after_down = after_down
        else:
            self._loop.run(self._cut())

    async def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def close(self) -> None:
        self._loop.run(self._cut())
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(
            "127.0.0.1", self._target, ssl=self._up_tls
        )
        self._writers += [writer, up_writer]
        for task in (
            asyncio.create_task(self._pump(reader, up_writer, self._up)),
            asyncio.create_task(self._pump(up_reader, writer, self._down)),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        through: Callable[[bytes], Awaitable[bytes]],
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(await through(data))
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    async def _up(self, data: bytes) -> bytes:
        if self._stalled:
            return b""
        if self._spoil_after is None:
            return data
        at = self._spoil_after
        self._spoil_after = at - len(data)
        if at >= len(data):
            return data
        self._spoil_after = None
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    async def _down(self, data: bytes) -> bytes:
        if self._cut_after_down is not None:
            self._cut_after_down -= len(data)
            if self._cut_after_down < 0:
                self._cut_after_down = None
                await self._cut()
        return data


# Servers that break the protocol.


def _event(kind: str, value: str, **more: Any) -> dict[str, Any]:
    return {"type": "process_event", "process_id": "p", "event": kind, "value": value, **more}


def _chunk(data: bytes, index: int, total: int, whole: bytes, seq: int = 1) -> dict[str, Any]:
    return {
        "type": "file",
        "process_id": "p",
        "file_hash": blake3.blake3(whole).hexdigest(),
        "chunk_index": index,
        "total_chunks": total,
        "chunk_data": data,
        "seq": seq,
    }


# The frames that a server sends after a launch.
STORIES: dict[str, list[Any]] = {
    "wrong_hash": [_chunk(b"false", 0, 1, b"true"), _event("stdout", "behind", seq=2)],
    "wrong_order": [
        _chunk(b"a", 0, 3, b"abc"),
        _chunk(b"c", 2, 3, b"abc"),
        _event("stdout", "behind", seq=2),
    ],
    "doubled": [
        _event("stdout", "one", seq=1, news="nobody asked for"),
        _event("stdout", "one", seq=1),
        {"type": "weather", "process_id": "p", "sun": True},
        {"type": "weather"},
        {"type": "response", "corr_id": 4_000_000_000, "ok": True, "result": "to nobody"},
        _event("stdout", "of nobody", seq=7) | {"process_id": "q"},
        _event("stdout", "two", seq=2),
        _event("return", "", seq=3),
    ],
    "unnumbered": [
        _event("stdout", "one"),
        _event("stdout", "one"),
        _event("message", "m"),
        _event("return", "r"),
    ],
    "garbage": [b"\xc1\xff\xff"],
}


class FakeServer:
    """Answers the first messages as a server does, then sends the frames of its script."""

    def __init__(self, loop: Loop, story: str) -> None:
        self._loop = loop
        self._story = story
        self._server = loop.run(self._serve())

    async def _serve(self) -> Any:
        if self._story == "http":
            return await asyncio.start_server(self._http, "127.0.0.1", 0)
        return await websockets.serve(self._talk, "127.0.0.1", 0, compression=None)

    @property
    def port(self) -> int:
        return next(iter(self._server.sockets)).getsockname()[1]

    def close(self) -> None:
        self._loop.loop.call_soon_threadsafe(self._server.close)

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        writer.close()

    async def _talk(self, socket: websockets.ServerConnection) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):  # clients are expected to hang up
            await self._tell(socket)

    async def _tell(self, socket: websockets.ServerConnection) -> None:
        async for data in socket:
            frame = msgpack.unpackb(data)
            if frame["type"] == "auth_identify":
                result = "Authenticated (no proof needed)"
            elif self._story == "silent":
                continue
            else:
                result = "p" if frame["type"] == "launch_process" else "Pong"
            number = frame["corr_id"]
            await self._send(
                socket, {"type": "response", "corr_id": number, "ok": True} | {"result": result}
            )
            if frame["type"] == "launch_process":
                for said in STORIES[self._story]:
                    await self._send(socket, said)

    async def _send(self, socket: websockets.ServerConnection, frame: Any) -> None:
        await socket.send(frame if isinstance(frame, bytes) else msgpack.packb(frame))
