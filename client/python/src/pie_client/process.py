"""A process on the server."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import blake3

from .errors import IntegrityError, PieError, ProcessEnded, ProcessError, RequestTimeout
from .events import Event
from .limits import MAX_INCOMING_BYTES

if TYPE_CHECKING:
    from .client import PieClient

Said = tuple[Event, str | bytes]


class Process:
    """A process on the server. `recv` gives its events in order; so does iterating over it.

    Dropping this object or losing the connection does not end the process.
    """

    def __init__(self, client: PieClient, process_id: str, seen: int | None) -> None:
        self.process_id = process_id
        self._client = client
        self._seen = seen
        self._events: deque[Said | PieError] = deque()
        self._arrived = asyncio.Event()
        self._file: _IncomingFile | None = None
        self._end: Said | None = None
        self._last_taken = False
        self._discards = False
        self._fault: PieError | None = None  # why the connection broke

    # --- listening -------------------------------------------------------------------------------

    async def recv(self, timeout: float | None = None) -> Said:
        """Returns the next event. Raises ProcessEnded after the last one. If the connection broke,
        raises ConnectionLost after all events that arrived before were taken."""
        try:
            async with asyncio.timeout(timeout):
                while not self._events:
                    if self._last_taken or (self._discards and self._end):
                        raise ProcessEnded(f"process {self.process_id} has ended")
                    if self._fault:
                        raise self._fault.__class__(*self._fault.args)
                    self._arrived.clear()
                    with self._client._waiting():
                        await self._arrived.wait()
        except TimeoutError as error:
            if isinstance(error, PieError):
                raise
            text = f"process {self.process_id} sent no event within {timeout} s"
            raise RequestTimeout(text) from None
        taken = self._events.popleft()
        if isinstance(taken, PieError):
            raise taken
        self._client._took(taken[1])
        self._last_taken = taken[0].is_last
        return taken

    def __aiter__(self) -> AsyncIterator[Said]:
        return self._all()

    async def _all(self) -> AsyncIterator[Said]:
        """Yields every event, including the last one."""
        while not self._last_taken:
            yield await self.recv()

    async def stream(self) -> AsyncIterator[str]:
        """Yields the text that the process sends and prints. Raises ProcessError if it fails. Skips
        other events. Afterwards `return_value` holds the return value."""
        async for event, value in self:
            if event is Event.Stdout:
                yield str(value)
            elif event is Event.Error:
                raise ProcessError(value)

    async def text(self) -> str:
        """Returns all text that the process sends and prints until it ends."""
        return "".join([part async for part in self.stream()])

    async def result(self) -> str:
        """Waits for the end and returns the return value. Skips all other events."""
        async for _ in self.stream():
            pass
        return self.return_value or ""

    @property
    def return_value(self) -> str | None:
        """The return value, or None before it has arrived."""
        return str(self._end[1]) if self._end and self._end[0] is Event.Return else None

    @property
    def ended(self) -> bool:
        """Whether the last event has arrived."""
        return self._end is not None

    @property
    def seen(self) -> int | None:
        """The number of events that have arrived. Another client can pass it to `attach_process` to
        continue from there. None if the events are not numbered."""
        return self._seen

    def discard(self) -> None:
        """Drops all events but the last, now and in future, so that unread events do not stop the
        connection from reading."""
        self._discards = True
        while self._events:
            said = self._events.popleft()
            if not isinstance(said, PieError):
                self._client._took(said[1])

    # --- speaking --------------------------------------------------------------------------------

    async def signal(self, message: str) -> None:
        """Sends a message to the process, which gets it from `session.receive`."""
        await self._client.signal_process(self.process_id, message)

    async def transfer_file(self, data: bytes) -> None:
        """Sends a file to the process, which gets it from `session.receive_file`."""
        await self._client.transfer_file(self.process_id, data)

    async def terminate(self) -> None:
        """Cancels the process. Its last event will be the error `cancelled`."""
        await self._client.terminate_process(self.process_id)

    def __repr__(self) -> str:
        return f"Process({self.process_id})"

    # --- for the connection ----------------------------------------------------------------------

    def _take(self, frame: dict[str, Any]) -> None:
        """Takes a frame of this process."""
        number = frame.get("seq")
        if number is not None and self._seen is not None and number <= self._seen:
            return  # it arrived before the connection broke
        if frame["type"] == "file":
            said = self._take_chunk(frame)
            if said is None:
                return
        else:
            said = Event(frame["event"]), str(frame["value"])
        if number is not None:
            self._seen = number
        if not isinstance(said, PieError) and said[0].is_last:
            self._end = said
        if not self._discards:
            self._events.append(said)
            if not isinstance(said, PieError):
                self._client._got(said[1], self)
        self._arrived.set()

    def _take_chunk(self, frame: dict[str, Any]) -> Said | PieError | None:
        index, total, data = frame["chunk_index"], frame["total_chunks"], frame["chunk_data"]
        if index == 0:
            self._file = _IncomingFile(frame["file_hash"], total)
        file = self._file
        if file is None:
            return None  # the rest of a file that was refused
        fault = file.add(index, total, data)
        if fault is None and index + 1 < total:
            return None
        self._file = None
        return fault or (Event.File, bytes(file.data))

    def _lost(self, fault: PieError) -> None:
        """Called when the connection broke."""
        self._fault = fault
        self._file = None
        self._arrived.set()

    def _back(self) -> None:
        """Called when the process is attached again."""
        self._fault = None


class _IncomingFile:
    """A file that arrives in chunks."""

    def __init__(self, file_hash: str, total: int) -> None:
        self.hash = file_hash
        self.total = total
        self.next: int = 0
        self.data = bytearray()

    def add(self, index: int, total: int, data: bytes) -> IntegrityError | None:
        if index != self.next or total != self.total:
            return IntegrityError(
                f"received chunk {index} of {total} of a file, expected {self.next} of {self.total}"
            )
        if len(self.data) + len(data) > MAX_INCOMING_BYTES:
            return IntegrityError(
                f"the process sent a file over the limit of {MAX_INCOMING_BYTES >> 20} MiB"
            )
        self.data += data
        self.next += 1
        if self.next == self.total and blake3.blake3(self.data).hexdigest() != self.hash:
            return IntegrityError(
                f"the received file of {len(self.data)} bytes does not match its hash {self.hash}"
            )
        return None
