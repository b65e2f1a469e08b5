"""A process on the server, as its client sees it."""

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
    """What it says comes by `recv`, in order; or `async for event, value in process`.

    It lives on the server: losing this object, or the connection, does not end it.
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
        self._fault: PieError | None = None  # of the connection

    # --- listening -------------------------------------------------------------------------------

    async def recv(self, timeout: float | None = None) -> Said:
        """The next event. Raises ProcessEnded behind the last one, and ConnectionLost when what
        came before the connection broke has all been taken."""
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
            text = f"process {self.process_id} said nothing for {timeout} s"
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
        """Every event, the last one too."""
        while not self._last_taken:
            yield await self.recv()

    async def stream(self) -> AsyncIterator[str]:
        """What it sends and prints, as it comes. Raises ProcessError if it fails. Other events are
        passed over; its return value is in `return_value` afterwards."""
        async for event, value in self:
            if event is Event.Stdout:
                yield str(value)
            elif event is Event.Error:
                raise ProcessError(value)

    async def text(self) -> str:
        """All that it sends and prints until it ends."""
        return "".join([part async for part in self.stream()])

    async def result(self) -> str:
        """What it returns; all else that it says is passed over."""
        async for _ in self.stream():
            pass
        return self.return_value or ""

    @property
    def return_value(self) -> str | None:
        """What it returned, once that has arrived."""
        return str(self._end[1]) if self._end and self._end[0] is Event.Return else None

    @property
    def ended(self) -> bool:
        """Whether its last word has arrived."""
        return self._end is not None

    @property
    def seen(self) -> int | None:
        """How many of its events have arrived: what `attach_process` of another client goes on
        from. None if it was attached without."""
        return self._seen

    def discard(self) -> None:
        """Nobody will listen: what it says is dropped, so that it does not keep the connection
        from reading. Only its end is kept."""
        self._discards = True
        while self._events:
            said = self._events.popleft()
            if not isinstance(said, PieError):
                self._client._took(said[1])

    # --- speaking --------------------------------------------------------------------------------

    async def signal(self, message: str) -> None:
        """Puts a message into its inbox (`session.receive`)."""
        await self._client.signal_process(self.process_id, message)

    async def transfer_file(self, data: bytes) -> None:
        """Sends a file (`session.receive_file`)."""
        await self._client.transfer_file(self.process_id, data)

    async def terminate(self) -> None:
        """Ends it; its last event will be the error `cancelled`."""
        await self._client.terminate_process(self.process_id)

    def __repr__(self) -> str:
        return f"Process({self.process_id})"

    # --- for the connection ----------------------------------------------------------------------

    def _take(self, frame: dict[str, Any]) -> None:
        """A frame of this process."""
        number = frame.get("seq")
        if number is not None and self._seen is not None and number <= self._seen:
            return  # had it before the connection broke
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
            return None  # the rest of one that was refused
        fault = file.add(index, total, data)
        if fault is None and index + 1 < total:
            return None
        self._file = None
        return fault or (Event.File, bytes(file.data))

    def _lost(self, fault: PieError) -> None:
        """The connection broke."""
        self._fault = fault
        self._file = None
        self._arrived.set()

    def _back(self) -> None:
        """It is there again."""
        self._fault = None


class _IncomingFile:
    """A file of which chunks come."""

    def __init__(self, file_hash: str, total: int) -> None:
        self.hash = file_hash
        self.total = total
        self.next = 0
        self.data = bytearray()

    def add(self, index: int, total: int, data: bytes) -> IntegrityError | None:
        if index != self.next or total != self.total:
            return IntegrityError(
                f"chunk {index} of {total} of a file came where {self.next} of {self.total} was due"
            )
        if len(self.data) + len(data) > MAX_INCOMING_BYTES:
            return IntegrityError(f"a file of more than {MAX_INCOMING_BYTES >> 20} MiB came")
        self.data += data
        self.next += 1
        if self.next == self.total and blake3.blake3(self.data).hexdigest() != self.hash:
            return IntegrityError(
                f"a file of {len(self.data)} bytes came that does not have its hash {self.hash}"
            )
        return None
