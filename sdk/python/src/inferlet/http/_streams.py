"""Bodies: bytes in, bytes out, without blocking other tasks of the inferlet."""

from __future__ import annotations

from typing import Any

from wit_world.imports import streams

from .._async import ready
from ..errors import PieError, Refused
from ._errors import describe_io

PIECE_BYTES = 64 << 10
# The longest body that is collected without a limit of the caller's own.
MAX_BODY_BYTES = 64 << 20


class Incoming:
    """The body of a request or a response, which is read once."""

    def __init__(self, message: Any) -> None:
        self._stream: Any = None
        self._body = message.consume()
        self._stream = self._body.stream()

    async def chunk(self) -> bytes | None:
        """The next bytes; None at the end."""
        while self._stream is not None:
            try:
                read = self._stream.read(PIECE_BYTES)
            except Refused as error:
                failure = _failure_of(error.value)
                self.close()
                if failure is None:
                    return None
                raise PieError(failure) from None
            if read:
                return bytes(read)
            await ready(self._stream.subscribe())
        return None

    async def all(self, limit: int) -> bytes:
        """The rest of the body. A longer one than `limit` bytes is a PieError."""
        pieces: list[bytes] = []
        size = 0
        while (piece := await self.chunk()) is not None:
            size += len(piece)
            if size > limit:
                self.close()
                raise PieError(f"the body has more than {limit} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Gives the rest up. The stream goes before the body that it belongs to."""
        if self._stream is not None:
            self._stream.__exit__(None, None, None)
            self._body.__exit__(None, None, None)
            self._stream = None

    def __del__(self) -> None:
        self.close()


async def write(stream: Any, data: bytes) -> None:
    """Writes all bytes, and waits while the other side reads slowly."""
    rest = memoryview(data)
    try:
        while rest:
            room = stream.check_write()
            if room == 0:
                await ready(stream.subscribe())
                continue
            stream.write(bytes(rest[:room]))
            rest = rest[room:]
    except Refused as error:
        failure = _failure_of(error.value) or "the other side has closed the connection"
        raise PieError(failure) from None


def _failure_of(error: Any) -> str | None:
    """The failure of a stream; None if it has ended."""
    if isinstance(error, streams.StreamError_Closed):
        return None
    with error.value as cause:
        return describe_io(cause)
