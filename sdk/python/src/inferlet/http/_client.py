"""Requests that an inferlet makes."""

from __future__ import annotations

import json as json_module
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from componentize_py_types import Err, Ok
from wit_world.imports import outgoing_handler
from wit_world.imports import wasi_http_types as wit

from .._async import ready, waits
from ..errors import PieError, Refused
from ._errors import describe
from ._fields import Headers, fields_of, find, headers_of, method_of, pairs
from ._streams import MAX_BODY_BYTES, Incoming, write

_SCHEMES = {"http": wit.Scheme_Http, "https": wit.Scheme_Https}


class Response:
    """A response whose head has come. The body follows as it is read."""

    def __init__(self, url: str, raw: Any) -> None:
        self.url = url
        self.status: int = raw.status()
        self.headers: list[tuple[str, str]] = headers_of(raw.headers())
        self._body = Incoming(raw)

    @property
    def ok(self) -> bool:
        """Whether the status is of the 200s."""
        return 200 <= self.status < 300

    def header(self, name: str) -> str | None:
        """The value of the first header of this name, in any case of letters."""
        return find(self.headers, name)

    @waits
    async def chunk(self) -> bytes | None:
        """The next bytes of the body; None at its end."""
        try:
            return await self._body.chunk()
        except PieError as error:
            raise PieError(f"{self.url}: {error}") from None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self.chunk()) is not None:
            yield piece

    async def _all(self) -> bytes:
        try:
            return await self._body.all(MAX_BODY_BYTES)
        except PieError as error:
            raise PieError(f"{self.url}: {error}") from None

    @waits
    async def bytes(self) -> bytes:
        """The rest of the body."""
        return await self._all()

    @waits
    async def text(self) -> str:
        """The rest of the body as text."""
        return (await self._all()).decode("utf-8", "replace")

    @waits
    async def json(self) -> Any:
        """The rest of the body, which is JSON."""
        try:
            return json_module.loads(await self._all())
        except ValueError as error:
            raise PieError(f"{self.url}: the response is not JSON: {error}") from None

    def close(self) -> None:
        """Gives up what has not been read."""
        self._body.close()


@waits
async def get(
    url: str, *, headers: Headers | None = None, timeout: float | None = None
) -> Response:
    """Sends a GET request, and returns when the head of the response has come."""
    return await send("GET", url, pairs(headers), b"", timeout)


@waits
async def post(
    url: str,
    body: str | bytes = b"",
    *,
    json: Any = None,
    headers: Headers | None = None,
    timeout: float | None = None,
) -> Response:
    """Sends a POST request with a body, or with a value as JSON."""
    return await send("POST", url, *_content(pairs(headers), body, json), timeout)


@waits
async def request(
    method: str,
    url: str,
    body: str | bytes = b"",
    *,
    json: Any = None,
    headers: Headers | None = None,
    timeout: float | None = None,
) -> Response:
    """Sends a request with any method. `timeout` is how many seconds to wait for the connection,
    and for the first byte of the response; the engine has a limit of its own."""
    return await send(method, url, *_content(pairs(headers), body, json), timeout)


def _content(
    headers: list[tuple[str, str]], body: str | bytes, json: Any
) -> tuple[list[tuple[str, str]], bytes]:
    if json is None:
        return headers, body.encode() if isinstance(body, str) else bytes(body)
    if find(headers, "content-type") is None:
        headers = [*headers, ("content-type", "application/json")]
    return headers, json_module.dumps(json, ensure_ascii=False).encode()


async def send(
    method: str, url: str, headers: list[tuple[str, str]], body: bytes, timeout: float | None
) -> Response:
    """Sends one request. It is the only place where requests leave the inferlet."""
    outgoing = _outgoing(method, url, headers, body)
    options = wit.RequestOptions()
    if timeout is not None:
        nanoseconds = max(0, int(timeout * 1e9))
        options.set_connect_timeout(nanoseconds)
        options.set_first_byte_timeout(nanoseconds)
    outgoing_body = outgoing.body()
    try:
        pending = outgoing_handler.handle(outgoing, options)
    except Refused as error:
        raise PieError(f"{url}: {describe(error.value)}") from None
    with pending:
        await _write_body(url, outgoing_body, body)
        while (answer := pending.get()) is None:
            await ready(pending.subscribe())
    match answer:
        case Ok(Ok(response)):
            return Response(url, response)
        case Ok(Err(code)):
            raise PieError(f"{url}: {describe(code)}")
        case _:
            raise PieError(f"{url}: the response was taken already")


def _outgoing(method: str, url: str, headers: list[tuple[str, str]], body: bytes) -> Any:
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise PieError(f"{url}: a URL begins with http:// or https://")
    if body and find(headers, "content-length") is None:
        headers = [*headers, ("content-length", str(len(body)))]
    path = parts.path if parts.path.startswith("/") else f"/{parts.path}"
    try:
        outgoing = wit.OutgoingRequest(fields_of(headers))
        outgoing.set_method(method_of(method))
        outgoing.set_scheme(_SCHEMES[parts.scheme]())
        outgoing.set_authority(parts.netloc)
        outgoing.set_path_with_query(f"{path}?{parts.query}" if parts.query else path)
    except Err:
        raise PieError(f"{url}: the URL or the method is malformed") from None
    except PieError as error:
        raise PieError(f"{url}: {error}") from None
    return outgoing


async def _write_body(url: str, outgoing_body: Any, body: bytes) -> None:
    """Writes the body. A server may answer before it has read all; the rest is then not needed."""
    with outgoing_body.write() as stream:
        try:
            await write(stream, body)
        except PieError:
            return
    try:
        wit.OutgoingBody.finish(outgoing_body, None)
    except Refused as error:
        raise PieError(f"{url}: {describe(error.value)}") from None
