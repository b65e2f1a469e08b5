"""Messages between inferlets of one engine: queues (push, pull) and broadcasts (subscribe)."""

from __future__ import annotations

from typing import Any

from wit_world.imports import broadcasts, monotonic_clock
from wit_world.imports import fallible as wit

from . import _check
from ._async import block_on, outcome_of, ready, waits
from .errors import PieError, ask

_FULL = "the queue is full"  # how the engine's error for it begins
_FIRST_PAUSE_NS = 1_000_000
_LONGEST_PAUSE_NS = 50_000_000


def push(topic: str, message: Any) -> None:
    """Appends to a queue; one `pull` takes each message. A string goes out as it is, anything else
    as JSON. A full queue is a PieError."""
    ask(wit.push, _check.text("topic", topic), _text(message))


@waits
async def push_wait(topic: str, message: Any) -> None:
    """Like `push`, but waits while the queue is full."""
    pause_ns = _FIRST_PAUSE_NS
    while True:
        try:
            return push(topic, message)
        except PieError as error:
            if not str(error).startswith(_FULL):
                raise
        # Not asyncio.sleep, which a plain program has no loop for.
        await ready(monotonic_clock.subscribe_instant(monotonic_clock.now() + pause_ns))
        pause_ns = min(2 * pause_ns, _LONGEST_PAUSE_NS)


@waits
async def pull(topic: str) -> str:
    """The next message of a queue."""
    message = await outcome_of(ask(wit.pull, _check.text("topic", topic)))
    if message is None:
        raise ConnectionError(f"the queue {topic!r} is closed: no further message will arrive")
    return message


def broadcast(topic: str, message: Any) -> None:
    """Hands a message to every present subscriber. A string goes out as it is, anything else as
    JSON."""
    ask(wit.broadcast, _check.text("topic", topic), _text(message))


def _text(message: Any) -> str:
    return _check.json_text("message", message)


def subscribe(topic: str) -> Subscription:
    """Keeps the broadcasts of a topic until they are read."""
    return Subscription(ask(wit.subscribe, _check.text("topic", topic)))


class Subscription:
    """`async for message in sub`, or `for` outside a loop. Leaving a `with` block unsubscribes."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._open = True

    @waits
    async def next(self) -> str | None:
        """The next broadcast; None after `unsubscribe`."""
        return await self._next()

    async def _next(self) -> str | None:
        while self._open:
            message = self._raw.get()
            if message is not None:
                return message
            await ready(self._raw.pollable())
        return None

    @property
    def dropped(self) -> int:
        """How many messages were dropped, oldest first, because the buffer was full."""
        return broadcasts.dropped(self._raw)

    def unsubscribe(self) -> None:
        """Ends the subscription."""
        if self._open:
            self._open = False
            self._raw.unsubscribe()  # wakes those who wait in next()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> str:
        message = await self._next()
        if message is None:
            raise StopAsyncIteration
        return message

    def __iter__(self) -> Subscription:
        return self

    def __next__(self) -> str:
        message = block_on(self._next())
        if message is None:
            raise StopIteration
        return message

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.unsubscribe()

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.unsubscribe()
