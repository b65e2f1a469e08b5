"""One WebSocket. It matches responses to requests by number and passes all other frames on.

It reads only while there is room for further events or while a call waits. So a process whose
events the program does not take waits at the server, instead of filling this client's memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
from collections.abc import Callable, Generator
from typing import Any

import msgpack  # pyright: ignore[reportMissingTypeStubs]
import websockets

from .errors import ConnectionLost, PieError, RequestTimeout, ServerError, TooLarge
from .limits import (
    MAX_FRAME_BYTES,
    MAX_INCOMING_BYTES,
    MAX_UNREAD_BYTES,
    UNREAD_BYTES,
    UNREAD_EVENTS,
)

Frame = dict[str, Any]
_msgpack: Any = msgpack  # it has no types
_PING_S = 20
_PONG_S = 40
_OPEN_S = 20
_EVENT_OVERHEAD = 128


class Pending:
    """A request in flight. `on_ok` runs before any frame after the response is processed."""

    def __init__(self, on_ok: Callable[[str], Any] | None) -> None:
        self.on_ok = on_ok
        self.done: asyncio.Future[str] = asyncio.get_running_loop().create_future()


class Connection:
    """Created by `open`. When it breaks, every pending call fails, and it stays broken."""

    def __init__(
        self,
        socket: websockets.ClientConnection,
        on_frame: Callable[[Frame], None],
        on_lost: Callable[[PieError], None],
    ) -> None:
        self._socket = socket
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._numbers = itertools.count(1)
        self._pending: dict[int, Pending] = {}
        self._waiters = 0
        self._unread_events = 0
        self._unread_bytes = 0
        self._wakes = asyncio.Event()
        self._fault: PieError | None = None
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, uri: str, on_frame: Any, on_lost: Any, **options: Any) -> Connection:
        try:
            socket = await websockets.connect(
                uri,
                max_size=MAX_INCOMING_BYTES,
                compression=None,
                open_timeout=_OPEN_S,
                ping_interval=_PING_S,
                ping_timeout=_PONG_S,
                **options,
            )
        except websockets.InvalidURI as error:
            raise ValueError(
                f"'{uri}' is not a valid address: use ws://HOST:PORT or wss://HOST:PORT"
            ) from error
        except (OSError, websockets.WebSocketException) as error:
            raise ConnectionLost(f"cannot connect to {uri}: {error or 'no answer'}") from error
        return cls(socket, on_frame, on_lost)

    def certificate_hash(self) -> bytes:
        """The SHA-256 of the server's certificate; empty if the connection is not encrypted."""
        encrypted = self._socket.transport.get_extra_info("ssl_object")
        certificate = encrypted.getpeercert(binary_form=True) if encrypted else None
        return hashlib.sha256(certificate).digest() if certificate else b""

    @property
    def broken(self) -> PieError | None:
        return self._fault

    async def close(self) -> None:
        self._fail(ConnectionLost("this client was closed"))
        await self._socket.close()
        await asyncio.gather(self._reader, return_exceptions=True)

    # --- requests --------------------------------------------------------------------------------

    def begin(self, on_ok: Callable[[str], Any] | None = None) -> tuple[int, Pending]:
        """Returns a number for a request, and its future response."""
        self._check()
        number = next(self._numbers) & 0xFFFF_FFFF
        pending = self._pending[number] = Pending(on_ok)
        self._wakes.set()
        return number, pending

    async def send(self, kind: str, **fields: Any) -> None:
        self._check()
        data: bytes = _msgpack.packb({"type": kind, **fields})
        if len(data) > MAX_FRAME_BYTES:
            raise TooLarge(
                f"{kind}: the message has {len(data)} bytes, but the server accepts at most "
                f"{MAX_FRAME_BYTES}; send large data as a file"
            )
        try:
            await self._socket.send(data)
        except websockets.ConnectionClosed as error:
            self._fail(_lost(error))
            self._check()

    async def finish(self, number: int, pending: Pending, timeout: float | None) -> str:
        """Waits for the response and returns it. Raises if the server refused the request."""
        try:
            async with asyncio.timeout(timeout):
                return await pending.done
        except TimeoutError as error:
            if isinstance(error, PieError):
                raise
            raise RequestTimeout(f"the server did not answer within {timeout} s") from None
        finally:
            self._pending.pop(number, None)

    async def request(
        self,
        kind: str,
        timeout: float | None,
        on_ok: Callable[[str], Any] | None = None,
        **fields: Any,
    ) -> str:
        number, pending = self.begin(on_ok)
        try:
            await self.send(kind, corr_id=number, **fields)
        except BaseException:
            self._pending.pop(number, None)
            pending.done.cancel()
            raise
        return await self.finish(number, pending, timeout)

    # --- reading ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def waiting(self) -> Generator[None, None, None]:
        """Marks that a call waits for an event."""
        self._waiters += 1
        self._wakes.set()
        try:
            yield
        finally:
            self._waiters -= 1

    def got(self, value: str | bytes, whose: object) -> None:
        self._unread_events += 1
        self._unread_bytes += len(value) + _EVENT_OVERHEAD
        if self._unread_bytes > MAX_UNREAD_BYTES:
            raise ConnectionLost(
                f"{self._unread_bytes >> 20} MiB of events were not taken, the last of {whose}: "
                "call recv() or discard() of every process, or use one connection for each"
            )

    def took(self, value: str | bytes) -> None:
        # After a reconnection, events are taken that the earlier connection had counted.
        self._unread_events = max(0, self._unread_events - 1)
        self._unread_bytes = max(0, self._unread_bytes - len(value) - _EVENT_OVERHEAD)
        if self._unread_events <= UNREAD_EVENTS // 2:
            self._wakes.set()

    def _is_full(self) -> bool:
        return self._unread_events > UNREAD_EVENTS or self._unread_bytes > UNREAD_BYTES

    def _is_wanted(self) -> bool:
        return bool(self._pending or self._waiters or self._fault)

    async def _read(self) -> None:
        try:
            async for data in self._socket:
                self._take(_msgpack.unpackb(data))
                while self._is_full() and not self._is_wanted():
                    self._wakes.clear()
                    await self._wakes.wait()
            fault: PieError = ConnectionLost("the server closed the connection")
        except websockets.ConnectionClosed as error:
            fault = _lost(error)
        except PieError as error:
            fault = error
        except (KeyError, TypeError, ValueError, AttributeError, msgpack.UnpackException) as error:
            fault = ConnectionLost(f"the server sent an invalid message: {error!r}")
        self._fail(fault)
        await self._socket.close()

    def _take(self, frame: Frame) -> None:
        if frame["type"] != "response":
            self._on_frame(frame)
            return
        pending = self._pending.pop(frame["corr_id"], None)
        if pending is None or pending.done.done():
            return  # no call waits for it any more
        result = str(frame["result"])
        if not frame["ok"]:
            pending.done.set_exception(ServerError(result))
            return
        if pending.on_ok:
            pending.on_ok(result)
        pending.done.set_result(result)

    def _check(self) -> None:
        if self._fault:
            raise self._fault.__class__(*self._fault.args)

    def _fail(self, fault: PieError) -> None:
        if self._fault:
            return
        self._fault = fault
        self._wakes.set()
        for pending in self._pending.values():
            if not pending.done.done():
                pending.done.set_exception(fault.__class__(*fault.args))
                pending.done.exception()  # avoids a warning if no call waits for it
        self._on_lost(fault)


def _lost(error: websockets.ConnectionClosed) -> ConnectionLost:
    said = error.rcvd
    if said is None:
        return ConnectionLost("the connection to the server broke")
    reason = said.reason or "no reason given"
    return ConnectionLost(f"the server closed the connection: {reason} ({said.code})")
