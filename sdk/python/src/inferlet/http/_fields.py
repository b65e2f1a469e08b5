"""Headers and methods: between this SDK's types and those of `wasi:http`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from wit_world.imports import wasi_http_types as wit

from ..errors import PieError, Refused
from ._errors import words

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
        raise PieError(f"headers: {words(error.value)}") from None


def headers_of(fields: Any) -> list[tuple[str, str]]:
    """The headers of a request or a response."""
    with fields:
        return [(name, value.decode("utf-8", "replace")) for name, value in fields.entries()]


def find(headers: list[tuple[str, str]], name: str) -> str | None:
    """The value of the first header of this name, in any case of letters."""
    wanted = name.lower()
    return next((value for key, value in headers if key.lower() == wanted), None)
