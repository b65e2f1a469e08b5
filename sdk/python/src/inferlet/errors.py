"""The exceptions of this SDK.

The bindings raise `Err`, a frozen dataclass: `contextlib` and `TaskGroup` fail on it, because they
set `__traceback__`. So no `Err` leaves the SDK; every fallible host call goes through `ask`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from componentize_py_types import Err

T = TypeVar("T")

Refused: type[Err[Any]] = Err
"""`Err` with a payload of any type, for `except`."""


class PieError(RuntimeError):
    """The engine refused a call or a pass failed. The text says why and what to do."""


class McpError(PieError):
    """A JSON-RPC error of an MCP server: its `code`, `message` and, if the server sent any, `data`
    as JSON. Its text has all of them: `no (code -7): {"why":1}`."""

    def __init__(self, code: int, message: str, data: str | None = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        data = "" if self.data is None else f": {self.data}"
        return f"{self.message} (code {self.code}){data}"


def ask(call: Callable[..., T], *args: Any) -> T:
    """Calls the host; its error becomes a `PieError` (or `McpError`)."""
    try:
        return call(*args)
    except Refused as err:
        raise from_wit(err.value) from None


def from_wit(value: Any) -> PieError:
    """The exception for the payload of a WIT error: a text, or MCP's record."""
    if isinstance(value, str):
        return PieError(value)
    return McpError(value.code, value.message, value.data)
