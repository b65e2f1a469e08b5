"""The channel to the client that launched this inferlet."""

from __future__ import annotations

from typing import Any

from wit_world.imports import fallible
from wit_world.imports import session as wit

from . import _check
from ._async import outcome_of, waits
from .errors import ask


def send(message: Any) -> None:
    """Sends a string as it is, anything else as JSON. A message that is too long is a PieError."""
    ask(fallible.send, _check.json_text("message", message))


def send_file(data: bytes | bytearray | memoryview) -> None:
    """Sends bytes, which the client receives as a file."""
    ask(fallible.send_file, _check.data("data", data))


@waits
async def receive() -> str:
    """The client's next message or signal. Calls that wait at once get one message each. A
    ConnectionError while no client is attached; a client may attach later."""
    return _present(await outcome_of(wit.receive()))


@waits
async def receive_file() -> bytes:
    """The client's next file."""
    return _present(await outcome_of(wit.receive_file()))


def _present(value: Any) -> Any:
    if value is None:
        raise ConnectionError(
            "no client is attached: it has left or detached. Receive again to wait for the next one"
        )
    return value
