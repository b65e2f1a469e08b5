"""A client that writes the protocol's frames itself, without our client packages.

Frames are checked against the protocol here, so a test that passes has also seen the right shapes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import blake3
import msgpack
import websockets

CHUNK = 256 * 1024
# Long enough that a test fails only if something hangs, even on a machine that stalls for minutes.
LIMIT_S = 600

Frame = dict[str, Any]


class Refused(Exception):
    """The server answered with ok = false."""


class RawClient:
    """One connection. It sorts responses by corr_id and events by process."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self.socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self.events: dict[str, asyncio.Queue[Frame]] = {}
        self.on_mcp_request: Callable[[Frame], None] | None = None
        self.closed = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, uri: str, user: str | None = "ada", **options: Any) -> RawClient:
        socket = await websockets.connect(uri, max_size=None, compression=None, **options)
        client = cls(socket)
        if user is not None:
            await client.ask("auth_identify", username=user)
        return client

    async def __aenter__(self) -> RawClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.socket.close()
        await asyncio.gather(self._reader, return_exceptions=True)

    def abort(self) -> None:
        """Breaks the connection without a closing handshake."""
        self.socket.transport.abort()

    async def _read(self) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            async for data in self.socket:
                assert isinstance(data, bytes), "frames are binary"
                self._take(msgpack.unpackb(data))
        self.closed.set()
        for future in self._waiting.values():
            if not future.done():
                why = f"the server closed the connection: {self.socket.close_reason}"
                future.set_exception(ConnectionError(why))

    def _take(self, frame: Frame) -> None:
        if frame["type"] == "response":
            assert set(frame) == {"type", "corr_id", "ok", "result"}
            assert isinstance(frame["ok"], bool) and isinstance(frame["result"], str)
            self._waiting.pop(frame["corr_id"]).set_result(frame)
            return
        if frame["type"] == "mcp_request" and self.on_mcp_request:
            self.on_mcp_request(frame)
            return
        keys = set(frame) - {"seq"}
        if frame["type"] == "process_event":
            assert keys == {"type", "process_id", "event", "value"}
            assert frame["event"] in {"stdout", "stderr", "message", "return", "error"}
        else:
            assert frame["type"] == "file"
            assert isinstance(frame["chunk_data"], bytes)
            assert len(frame["chunk_data"]) <= CHUNK
        self.queue(frame["process_id"]).put_nowait(frame)

    def queue(self, process: str) -> asyncio.Queue[Frame]:
        return self.events.setdefault(process, asyncio.Queue())

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(msgpack.packb({"type": kind, **fields}))

    async def request(self, kind: str, **fields: Any) -> Frame:
        """Sends a message and returns the response, also a refusal."""
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        future = self._waiting[number]
        await self.send(kind, corr_id=number, **fields)
        return await asyncio.wait_for(future, LIMIT_S)

    async def ask(self, kind: str, **fields: Any) -> str:
        """Sends a message and returns the result. Raises Refused for a refusal."""
        response = await self.request(kind, **fields)
        if not response["ok"]:
            raise Refused(response["result"])
        return response["result"]

    async def install(self, component: bytes, manifest: str, force: bool = False) -> str:
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        chunks = [component[at : at + CHUNK] for at in range(0, len(component), CHUNK)] or [b""]
        for index, chunk in enumerate(chunks):
            await self.send(
                "add_program",
                corr_id=number,
                program_hash=blake3.blake3(component).hexdigest(),
                manifest=manifest,
                force_overwrite=force,
                chunk_index=index,
                total_chunks=len(chunks),
                chunk_data=chunk,
            )
        response = await asyncio.wait_for(future, LIMIT_S)
        if not response["ok"]:
            raise Refused(response["result"])
        return response["result"]

    async def launch(self, inferlet: str, input: str = "{}", **more: Any) -> str:
        fields = {"capture_outputs": True, **more}
        return await self.ask("launch_process", inferlet=inferlet, input=input, **fields)

    async def send_file(self, process: str, data: bytes, **more: Any) -> None:
        chunks = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)] or [b""]
        for index, chunk in enumerate(chunks):
            fields = {
                "process_id": process,
                "file_hash": blake3.blake3(data).hexdigest(),
                "chunk_index": index,
                "total_chunks": len(chunks),
                "chunk_data": chunk,
                **more,
            }
            await self.send("transfer_file", **fields)

    async def event(self, process: str) -> tuple[str, Any]:
        """The next event. A file's chunks are joined into one event."""
        frame = await asyncio.wait_for(self.queue(process).get(), LIMIT_S)
        if frame["type"] == "process_event":
            return frame["event"], frame["value"]
        data = frame["chunk_data"]
        for index in range(1, frame["total_chunks"]):
            part = await asyncio.wait_for(self.queue(process).get(), LIMIT_S)
            assert part["type"] == "file" and part["chunk_index"] == index
            data += part["chunk_data"]
        assert blake3.blake3(data).hexdigest() == frame["file_hash"]
        return "file", data

    async def until_gone(self, process: str) -> None:
        """Waits until the server no longer lists a process of this user."""
        while process in await self.ask("list_processes"):
            await asyncio.sleep(0.01)

    async def until_end(self, process: str) -> list[tuple[str, Any]]:
        """All events up to and including the return or the error."""
        events = [await self.event(process)]
        while events[-1][0] not in ("return", "error"):
            events.append(await self.event(process))
        return events
