"""Makes `urllib.request` send its requests through the engine, in place of sockets.

Everything above the connection stays urllib's own: openers, redirects, errors, authentication.
Each request of a redirect is a request like others, which the engine checks. What is for one host
alone, such as a key, is not carried along to another one, as urllib would do.
"""

from __future__ import annotations

import http.client
import io
import urllib.error
import urllib.parse
import urllib.request
import urllib.response
from typing import Any, cast

from .._async import block_on
from ..errors import PieError
from ._client import Response, send

# Headers that a redirect to another origin must not carry along.
_SECRETS = ("authorization", "cookie", "proxy-authorization")

_redirect = urllib.request.HTTPRedirectHandler.redirect_request


class _Reader(io.RawIOBase):
    """The body of a response as a file."""

    def __init__(self, response: Response) -> None:
        self._response = response
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            try:
                self._rest = block_on(self._response._body.chunk()) or b""
            except PieError as error:
                raise OSError(f"{self._response.url}: {error}") from None
        taken = min(len(buffer), len(self._rest))
        buffer[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken

    def close(self) -> None:
        self._response.close()
        super().close()


def _open(_: Any, request: urllib.request.Request) -> urllib.response.addinfourl:
    """Sends one request of urllib, and returns its response without its body."""
    body = _body_of(request.data)
    # The engine sets the headers of the connection.
    headers = [
        (name, value)
        for name, value in request.header_items()
        if name.lower() not in ("host", "connection", "transfer-encoding")
    ]
    timeout = request.timeout if isinstance(request.timeout, (int, float)) else None
    try:
        response = block_on(send(request.get_method(), request.full_url, headers, body, timeout))
    except PieError as error:
        raise urllib.error.URLError(str(error)) from None
    head = http.client.HTTPMessage()
    for name, value in response.headers:
        head[name] = value
    made: Any = urllib.response.addinfourl(
        io.BufferedReader(_Reader(response)), head, request.full_url, response.status
    )
    made.msg = made.reason = http.client.responses.get(response.status, "")
    return made


def _body_of(data: Any) -> bytes:
    if data is None:
        return b""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(cast("bytes", data))
    if hasattr(data, "read"):
        return data.read()
    return b"".join(data)


def _redirected(handler: Any, request: Any, *redirect: Any) -> Any:
    """The request that follows a redirect, as urllib makes it, without another host's secrets."""
    made: Any = _redirect(handler, request, *redirect)
    if made is not None and _origin(made.full_url) != _origin(request.full_url):
        for name in [name for name in made.headers if name.lower() in _SECRETS]:
            made.remove_header(name)
    return made


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def install() -> None:
    """From here on, `urllib.request` uses the engine."""
    handler: Any = urllib.request.HTTPHandler
    handler.http_open = handler.https_open = _open
    handler.https_request = handler.http_request
    redirects: Any = urllib.request.HTTPRedirectHandler
    redirects.redirect_request = _redirected
