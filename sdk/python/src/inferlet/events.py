"""The older face of generation: one decoder for text, reasoning and tools; a stream of events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import chat, tools
from . import reasoning as thoughts
from ._async import block_on
from .model import Model

if TYPE_CHECKING:
    from .generator import Generator


class Event:
    @dataclass(frozen=True, slots=True)
    class Text:
        text: str

    @dataclass(frozen=True, slots=True)
    class Thinking:
        text: str

    @dataclass(frozen=True, slots=True)
    class ThinkingDone:
        """All of the reasoning."""

        text: str

    @dataclass(frozen=True, slots=True)
    class ToolCallStart:
        pass

    @dataclass(frozen=True, slots=True)
    class ToolCall:
        """`arguments` is JSON text."""

        name: str
        arguments: str

    @dataclass(frozen=True, slots=True)
    class Done:
        """The end; all of the text."""

        text: str


class Decoder:
    """Feeds the chat decoder and, if asked for, those of reasoning and tools."""

    def __init__(self, model: Model, *, reasoning: bool = False, tool_use: bool = False) -> None:
        self._chat = chat.Decoder(model)
        self._reasoning = thoughts.Decoder(model) if reasoning else None
        self._tools = tools.Decoder(model) if tool_use else None
        self._thinking = False
        self._calling = False

    def feed(self, tokens: list[int]) -> list[Any]:
        """The events of a batch of tokens, perhaps none."""
        found: list[Any] = []
        visible = self._feed_reasoning(tokens, found)
        if self._tools is not None:
            match self._tools.feed(tokens):
                case tools.Event.Start() if not self._calling:
                    self._calling = True
                    found.append(Event.ToolCallStart())
                case tools.Event.Call(name, args):
                    self._calling = False
                    found.append(Event.ToolCall(name, args))
        match self._chat.feed(tokens):
            case chat.Event.Delta(text) if visible:
                found.append(Event.Text(text))
            case chat.Event.Done(text):
                found.append(Event.Done(text))
        return found

    def _feed_reasoning(self, tokens: list[int], found: list[Any]) -> bool:
        """Adds reasoning events; is the batch's text part of the answer?"""
        if self._reasoning is None:
            return True
        match self._reasoning.feed(tokens):
            case thoughts.Event.Start():
                self._thinking = True
            case thoughts.Event.Delta(text):
                self._thinking = True
                found.append(Event.Thinking(text))
            case thoughts.Event.End(text):
                self._thinking = False
                found.append(Event.ThinkingDone(text))
                return False
        return not self._thinking

    def reset(self) -> None:
        self._thinking = self._calling = False
        for decoder in (self._chat, self._reasoning, self._tools):
            if decoder is not None:
                decoder.reset()


class EventStream:
    """`for event in ctx.generate(sampler, decode=True)`, or `async for`; ends with `Event.Done`."""

    def __init__(self, generator: Generator, *, reasoning: bool, tool_use: bool) -> None:
        self._generator = generator
        self._decoder = Decoder(generator._ctx.model, reasoning=reasoning, tool_use=tool_use)
        self._waiting: deque[Any] = deque()
        self._parts: list[str] = []
        self._ended = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        event = block_on(self._next())
        if event is None:
            raise StopIteration
        return event

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Any:
        event = await self._next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def _next(self) -> Any:
        while not self._waiting:
            if self._ended:
                return None
            if self._generator._begin():
                self._take(self._decoder.feed((await self._generator._run()).tokens))
            else:
                # Stop ids never reach the decoder, so it is this stream that says Done.
                self._take([Event.Done("".join(self._parts))])
        return self._waiting.popleft()

    def _take(self, found: list[Any]) -> None:
        for event in found:
            self._waiting.append(event)
            if isinstance(event, Event.Text):
                self._parts.append(event.text)
            elif isinstance(event, Event.Done):
                self._ended = True
                return

    def text(self) -> str:
        """Blocks until the end; the text."""
        return next((e.text for e in self if isinstance(e, Event.Done)), "".join(self._parts))

    def tokens(self) -> list[int]:
        """Blocks until the end; the tokens."""
        return self._generator.tokens()
