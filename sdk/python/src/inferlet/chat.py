"""Chat turns as the model's own template writes them, and the decoder of the model's turn."""

from __future__ import annotations

from dataclasses import dataclass

from wit_world.imports import chat as wit

from . import _check
from ._event import EventType
from .errors import ask
from .model import Model, raw_of


class Event(metaclass=EventType):
    """The meaning of a batch of tokens; match on `Event.Delta(text=t)` and the like."""

    @dataclass(frozen=True, slots=True)
    class Idle:
        """Nothing to show."""

    @dataclass(frozen=True, slots=True)
    class Delta:
        """Text that became visible."""

        text: str

    @dataclass(frozen=True, slots=True)
    class Done:
        """The turn has ended; its whole text."""

        text: str

    @dataclass(frozen=True, slots=True)
    class Interrupt:
        """A control token that the text does not show. Text around it comes with the next feed."""

        token: int


IDLE = Event.Idle()


class Decoder:
    """Turns tokens into text, whole characters only."""

    __slots__ = ("_raw",)

    def __init__(self, model: Model) -> None:
        self._raw = wit.create_decoder(raw_of(model))

    def feed(self, tokens: list[int]) -> Event.Idle | Event.Delta | Event.Done | Event.Interrupt:
        """Decodes a batch. An empty batch gives the text that an `Interrupt` has held back."""
        event = ask(self._raw.feed, _check.tokens("tokens", tokens))
        if isinstance(event, wit.Event_Delta):
            return Event.Delta(event.value) if event.value else IDLE
        if isinstance(event, wit.Event_Done):
            return Event.Done(event.value)
        return Event.Interrupt(event.value)

    def reset(self) -> None:
        """Forgets the turn so far."""
        self._raw.reset()


def system(model: Model, msg: str) -> list[int]:
    """Tokens of a system message."""
    return wit.system(raw_of(model), _check.text("msg", msg))


def user(model: Model, msg: str) -> list[int]:
    """Tokens of a user message."""
    return wit.user(raw_of(model), _check.text("msg", msg))


def assistant(model: Model, msg: str) -> list[int]:
    """Tokens of an assistant's turn."""
    return wit.assistant(raw_of(model), _check.text("msg", msg))


def cue(model: Model) -> list[int]:
    """Tokens that open the model's turn."""
    return wit.cue(raw_of(model))


def seal(model: Model) -> list[int]:
    """Tokens that close the model's turn."""
    return wit.seal(raw_of(model))


def stop_tokens(model: Model) -> list[int]:
    """Ids of the tokens that end a turn or the text."""
    return wit.stop_tokens(raw_of(model))
