"""The older API of generation: one decoder for text, reasoning and tools; a stream of events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from . import chat, tools
from . import reasoning as thoughts
from ._async import block_on
from ._event import EventType
from .model import Model

if TYPE_CHECKING:
    from .generator import Generator


class Event(metaclass=EventType):
    """The events of a turn; match on `Event.Text(text=t)` and the like."""

    @dataclass(frozen=True, slots=True)
    class Text:
        """Text of the answer."""

        text: str

    @dataclass(frozen=True, slots=True)
    class Thinking:
        """Text of the reasoning."""

        text: str

    @dataclass(frozen=True, slots=True)
    class ThinkingDone:
        """A reasoning block is closed; its whole text."""

        text: str

    @dataclass(frozen=True, slots=True)
    class ToolCallStart:
        """A tool call is being written."""

    @dataclass(frozen=True, slots=True)
    class ToolCall:
        """A complete tool call; `arguments` is JSON text."""

        name: str
        arguments: str

    @dataclass(frozen=True, slots=True)
    class Done:
        """The turn has ended; its whole text."""

        text: str


class Decoder:
    """Turns tokens into events: text and, if asked for, reasoning and tool calls."""

    def __init__(self, model: Model, *, reasoning: bool = False, tool_use: bool = False) -> None:
        self._chat = chat.Decoder(model)
        self._reasoning = thoughts.Decoder(model) if reasoning else None
        self._tools = tools.Decoder(model) if tool_use else None
        self._thinking = False
        self._calling = False
        self._shown: list[str] = []

    def feed(self, tokens: list[int]) -> list[Any]:
        """The events of a batch of tokens, perhaps none."""
        found: list[Any] = []
        visible = self._feed_reasoning(tokens, found)
        visible = not self._feed_tools(tokens, found) and visible
        event = self._chat.feed(tokens)
        if isinstance(event, chat.Event.Interrupt):
            event = self._chat.feed([])  # the text around the control token
        match event:
            case chat.Event.Delta(text) if visible:
                self._shown.append(text)
                found.append(Event.Text(text))
            case chat.Event.Done(text):
                hides = self._reasoning is not None or self._tools is not None
                found.append(Event.Done("".join(self._shown) if hides else text))
            case _:
                pass
        return found

    def _feed_reasoning(self, tokens: list[int], found: list[Any]) -> bool:
        """Adds reasoning events. Returns whether the batch's text is part of the answer."""
        if self._reasoning is None:
            return True
        event = self._reasoning.feed(tokens)
        if isinstance(event, thoughts.Event.Start):
            self._thinking = True
            event = self._reasoning.feed([])  # the text after the opening mark
        match event:
            case thoughts.Event.Delta(text):
                self._thinking = True
                found.append(Event.Thinking(text))
            case thoughts.Event.End(text):
                self._thinking = False
                found.append(Event.ThinkingDone(text))
                return False
            case _:
                pass
        return not self._thinking

    def _feed_tools(self, tokens: list[int], found: list[Any]) -> bool:
        """Adds tool events: all calls that the batch completes. Returns whether the batch is part
        of a call, whose text is not part of the answer."""
        if self._tools is None:
            return False
        was_calling = self._calling
        event = self._tools.feed(tokens)
        is_call = isinstance(event, tools.Event.Call)
        while isinstance(event, tools.Event.Call):
            self._calling = False
            found.append(Event.ToolCall(event.name, event.args))
            event = self._tools.feed([])
        if isinstance(event, tools.Event.Start) and not self._calling:
            self._calling = True
            found.append(Event.ToolCallStart())
        return was_calling or is_call or self._calling

    def reset(self) -> None:
        """Forgets the turn so far."""
        self._thinking = self._calling = False
        self._shown.clear()
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

    def __await__(self) -> NoReturn:
        raise TypeError(
            "an EventStream is not awaited: use `async for event in stream`, or stream.text()"
        )

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
                self._take(self._decoder.feed([]))
                # Stop ids do not reach the decoder, so the stream adds the Done event itself.
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
        """Blocks until the end and returns the text, also what was taken before."""
        for _ in self:
            pass
        return "".join(self._parts)

    def tokens(self) -> list[int]:
        """Blocks until the end and returns the tokens, also those taken before."""
        for _ in self:
            pass
        return self._generator.tokens()
