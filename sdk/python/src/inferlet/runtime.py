"""The engine around this inferlet, and other inferlets that it starts."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

from wit_world.imports import runtime as wit

from . import _check
from ._async import ready, waits
from .errors import Refused, ask, from_wit


def version() -> str:
    """The engine's version."""
    return wit.version()


def instance_id() -> str:
    """The id of this running inferlet."""
    return wit.instance_id()


def username() -> str:
    """The user who launched it."""
    return wit.username()


def models() -> list[str]:
    """Names of the loaded models, the default one first."""
    return wit.models()


def launch(program: str, input: Any = None) -> Child:
    """Starts another inferlet (`name` or `name@X.Y.Z`) as the same user. A string goes in as it is,
    anything else as JSON."""
    text = _check.json_text("input", {} if input is None else input)
    return Child(ask(wit.launch, _check.text("program", program), text))


spawn = launch  # the older name


class Child:
    """A launched inferlet: `result = await child`. It runs on if the program does not wait."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    @property
    def pid(self) -> str:
        """The child's instance id."""
        return self._raw.pid()

    def cancel(self) -> None:
        """Stops the child."""
        self._raw.cancel()

    @waits
    async def wait(self) -> str:
        """The child's result. Raises the error of a child that failed."""
        return await self._wait()

    def __await__(self) -> Generator[Any, Any, str]:
        return self._wait().__await__()

    async def _wait(self) -> str:
        result = self._raw.get()
        if result is None:
            await ready(self._raw.pollable())
            result = self._raw.get()
        if isinstance(result, Refused):
            raise from_wit(cast("Any", result).value)
        if result is None:
            raise ConnectionError("the child inferlet ended without a result")
        return result.value
