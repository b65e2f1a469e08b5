"""Waiting. Everything that an inferlet waits for is a `wasi:io/poll` pollable.

Two ways, chosen by how the program is written:

* in an `async def main`, a small asyncio event loop (`Loop`) polls everything that its tasks
  wait for at once;
* in a plain `def main` or a script there is no loop, and the same SDK functions block
  (`waits`, `block_on`).

There is one thread. The code that waits for a pollable drops it before the future it came from.
"""

from __future__ import annotations

import asyncio
import functools
import types
from asyncio.events import _get_running_loop
from collections.abc import Callable, Coroutine, Generator
from typing import Any, ParamSpec, TypeVar, cast

from ._loop import Loop

__all__ = ["Loop", "block_on", "may_block", "outcome_of", "ready", "run", "waits"]

P = ParamSpec("P")
T = TypeVar("T")

_blocking = 0  # depth of block_on calls


@types.coroutine
def ready(pollable: Any) -> Generator[Any, None, None]:
    """Waits until `pollable` is ready, and drops it also when the wait is cancelled."""
    if _blocking:
        with pollable:
            yield pollable
        return
    loop = cast("Loop", asyncio.get_running_loop())
    future = loop.until(pollable)
    try:
        yield from future
    finally:
        loop.forget(future)
        pollable.__exit__(None, None, None)


def may_block() -> bool:
    """Whether the caller may block the inferlet, because nothing else could run meanwhile."""
    loop = _get_running_loop()
    return loop is None or bool(_blocking) or cast("Loop", loop).alone


async def outcome_of(future: Any) -> Any:
    """The value of a WIT future (`pollable`, `get`), or None when its source is gone. Drops it."""
    with future:
        value = future.get()
        if value is None:
            await ready(future.pollable())
            value = future.get()
        return value


def block_on(coro: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine of this SDK to its end without a loop: each wait blocks the inferlet."""
    global _blocking
    _blocking += 1
    try:
        while True:
            coro.send(None).block()
    except StopIteration as end:
        return end.value
    finally:
        _blocking -= 1
        coro.close()


def waits(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Marks a function that waits: a coroutine to await inside a loop, a blocking call outside.
    The type is that of the coroutine, for which `asyncio.create_task` asks."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        coro = function(*args, **kwargs)
        return block_on(coro) if _get_running_loop() is None else coro

    return call


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs a program on a fresh loop; tasks it leaves behind are cancelled."""
    return Loop().run(main)
