"""Headers, methods and errors: between this SDK's types and those of `wasi:http`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from wit_world.imports import wasi_http_types as wit

from ..errors import PieError, Refused

Headers = Mapping[str, str] | Iterable[tuple[str, str]]
"""Headers as a mapping, or as pairs where a name comes more than once."""

_METHODS = ("Get", "Head", "Post", "Put", "Delete", "Connect", "Options", "Trace", "Patch")


def method_of(name: str) -> Any:
    """The method of a name in capitals."""
    if name.title() in _METHODS and name.isupper():
        return getattr(wit, f"Method_{name.title()}")()
    return wit.Method_Other(name)


def name_of(method: Any) -> str:
    """The name of a method, in capitals."""
    if isinstance(method, wit.Method_Other):
        return method.value
    return type(method).__name__.removeprefix("Method_").upper()


def pairs(headers: Headers | None) -> list[tuple[str, str]]:
    """The headers as a list of pairs."""
    if headers is None:
        return []
    if isinstance(headers, Mapping):
        return list(cast("Mapping[str, str]", headers).items())
    return list(headers)


def fields_of(headers: Iterable[tuple[str, str]]) -> Any:
    """The headers as a resource of the engine. A name or value that no header can have is a
    PieError."""
    entries = [(name, value.encode()) for name, value in headers]
    try:
        return wit.Fields.from_list(entries)
    except Refused as error:
        raise PieError(f"headers: {_words(error.value)}") from None


def headers_of(fields: Any) -> list[tuple[str, str]]:
    """The headers of a request or a response."""
    with fields:
        return [(name, value.decode("utf-8", "replace")) for name, value in fields.entries()]


def find(headers: list[tuple[str, str]], name: str) -> str | None:
    """The value of the first header of this name, in any case of letters."""
    wanted = name.lower()
    return next((value for key, value in headers if key.lower() == wanted), None)


def describe(code: Any) -> str:
    """What an error of `wasi:http` means, and what to do about it."""
    match code:
        case wit.ErrorCode_HttpRequestDenied():
            return "the engine's config does not allow this host; add it to [runtime.http] allow"
        case wit.ErrorCode_DestinationIpProhibited():
            return (
                "the name leads to an address that is not public; "
                "add the address to [runtime.http] allow"
            )
        case wit.ErrorCode_ConnectionLimitReached():
            return (
                "this inferlet has made too many requests "
                "(runtime.http.max_requests, max_in_flight)"
            )
        case wit.ErrorCode_HttpResponseBodySize(value=limit):
            return f"the response is longer than {limit} bytes (runtime.http.max_response_mb)"
        case wit.ErrorCode_HttpRequestBodySize():
            return "the request's body is too long (runtime.http.max_request_mb)"
        case wit.ErrorCode_DnsError(value=dns):
            return f"the name was not found: {dns.rcode or ''}"
        case wit.ErrorCode_ConnectionRefused():
            return "the server refused the connection"
        case wit.ErrorCode_ConnectionTimeout():
            return "no connection was made in time"
        case wit.ErrorCode_HttpResponseTimeout():
            return "no response came in time"
        case wit.ErrorCode_ConnectionReadTimeout():
            return "the response stopped arriving"
        case wit.ErrorCode_InternalError(value=text):
            return text or "internal error"
        case _:
            return _words(code)


def _words(case: Any) -> str:
    """The name of a variant's case as words: `tls certificate error`."""
    name = type(case).__name__.rpartition("_")[2]
    return " ".join(re.findall(r"[A-Z][a-z0-9]*", name)).lower()
