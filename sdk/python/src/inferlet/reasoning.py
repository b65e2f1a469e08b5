"""The model's reasoning, apart from its answer."""

from __future__ import annotations

from dataclasses import dataclass

from wit_world.imports import reasoning as wit

from .errors import ask
from .model import Model


class Event:
    @dataclass(frozen=True, slots=True)
    class Idle:
        """No reasoning in this batch."""

    @dataclass(frozen=True, slots=True)
    class Start:
        """A reasoning block begins."""

    @dataclass(frozen=True, slots=True)
    class Delta:
        text: str

    @dataclass(frozen=True, slots=True)
    class End:
        """The block is closed; all of its text."""

        text: str


IDLE = Event.Idle()


class Decoder:
    __slots__ = ("_raw",)

    def __init__(self, model: Model) -> None:
        self._raw = wit.create_decoder(model._raw)

    def feed(self, tokens: list[int]) -> Event.Idle | Event.Start | Event.Delta | Event.End:
        if not tokens:
            return IDLE
        event = ask(self._raw.feed, tokens)
        kind = type(event)
        if kind is wit.Event_Delta:
            return Event.Delta(event.value) if event.value else IDLE
        if kind is wit.Event_Complete:
            return Event.End(event.value)
        return Event.Start()

    def reset(self) -> None:
        self._raw.reset()
