"""Requests that an inferlet answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from componentize_py_types import Err, Ok
from wit_world.imports import wasi_http_types as wit

from .._async import waits
from ..errors import PieError, Refused
from ._errors import describe
from ._fields import Headers, fields_of, find, headers_of, name_of, pairs
from ._streams import MAX_BODY_BYTES, Incoming, write


class Request:
    """A request from a client."""

    def __init__(self, raw: Any) -> None:
        target = raw.path_with_query() or "/"
        self.method: str = name_of(raw.method())
        self.path, _, self.query = target.partition("?")
        self.headers: list[tuple[str, str]] = headers_of(raw.headers())
        self._incoming = Incoming(raw)

    def header(self, name: str) -> str | None:
        """The value of the first header of this name, in any case of letters."""
        return find(self.headers, name)

    @waits
    async def body(self, limit: int = MAX_BODY_BYTES) -> bytes:
        """The rest of the body. A longer one than `limit` bytes is a PieError."""
        return await self._incoming.all(limit)

    @waits
    async def chunk(self) -> bytes | None:
        """The next bytes of the body; None at its end."""
        return await self._incoming.chunk()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._incoming.chunk()) is not None:
            yield piece


class Body:
    """The body of a response. Without `finish`, the client sees that it was cut off."""

    def __init__(self, outgoing: Any) -> None:
        self._outgoing = outgoing
        self._stream: Any = outgoing.write()

    @waits
    async def write(self, data: str | bytes) -> None:
        """Writes to the client. Waits while it reads slowly, and fails when it has left."""
        if self._stream is None:
            raise PieError("the body is finished")
        await write(self._stream, data.encode() if isinstance(data, str) else bytes(data))

    def finish(self) -> None:
        """Ends the response."""
        if self._stream is None:
            return
        self._drop_stream()
        try:
            wit.OutgoingBody.finish(self._outgoing, None)
        except Refused as error:
            raise PieError(describe(error.value)) from None

    def _drop_stream(self) -> None:
        """The stream goes before the body that it belongs to."""
        if self._stream is not None:
            self._stream.__exit__(None, None, None)
            self._stream = None

    def __del__(self) -> None:
        self._drop_stream()


class Responder:
    """The place for the one response to a request."""

    def __init__(self, out: Any) -> None:
        self._out = out

    def start(self, status: int = 200, headers: Headers | None = None) -> Body:
        """Sends the head of the response. The body follows as it is written."""
        if self._out is None:
            raise PieError("the response was sent already")
        response = wit.OutgoingResponse(fields_of(pairs(headers)))
        try:
            response.set_status_code(status)
        except (Err, OverflowError):
            raise PieError(f"{status} is no HTTP status") from None
        body = Body(response.body())
        out, self._out = self._out, None
        wit.ResponseOutparam.set(out, Ok(response))
        return body

    @waits
    async def send(
        self, body: str | bytes, status: int = 200, headers: Headers | None = None
    ) -> None:
        """Sends a whole response."""
        data = body.encode() if isinstance(body, str) else bytes(body)
        sent = self.start(status, [*pairs(headers), ("content-length", str(len(data)))])
        await write(sent._stream, data)
        sent.finish()

    def give_up(self) -> None:
        """Tells the client that there will be no response, if none was begun."""
        if self._out is not None:
            out, self._out = self._out, None
            why = wit.ErrorCode_InternalError("the inferlet sent no response")
            wit.ResponseOutparam.set(out, Err(why))
