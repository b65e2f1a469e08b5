"""Which chat turns a context has, so that the next is written as the template writes it there.

A template renders whole conversations: where a turn stands changes what it adds. Turns whose tokens
are still the end of the buffer are pending and are rendered together, so while nothing is flushed
the buffer is the template's own rendering. Anything else that touches the buffer settles them: from
then on only their kinds are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wit_world.imports import chat as wit_chat
from wit_world.imports import tool_use as wit_tools
from wit_world.imports import turns as wit

from .errors import PieError, ask

if TYPE_CHECKING:
    from .model import Model


class Turns:
    __slots__ = ("_end", "_pending", "_settled", "_start")

    def __init__(self, *, in_the_middle: bool = False) -> None:
        """`in_the_middle`: of a context whose turns nobody knows."""
        self._settled: list[Any] = [wit.Kind.USER, wit.Kind.ASSISTANT] if in_the_middle else []
        self._pending: list[Any] = []
        self._start = self._end = 0  # of the pending turns' tokens in the buffer

    def copy(self) -> Turns:
        clone = Turns()
        clone._settled, clone._pending = self._settled.copy(), self._pending.copy()
        clone._start, clone._end = self._start, self._end
        return clone

    def add(self, model: Model, buffer: list[int], turn: Any) -> None:
        """Adds a turn's tokens to the buffer, and writes those of the pending ones anew."""
        if self._pending and len(buffer) != self._end:
            self.settle()
        if not self._pending:
            self._start = len(buffer)
        try:
            tokens = ask(wit.extend, model._raw, self._settled, [*self._pending, turn])
        except PieError:  # the template refuses these turns together: the new one by itself
            self.settle()
            self._start = len(buffer)
            tokens = _alone(model, turn)
        buffer[self._start :] = tokens
        self._pending.append(turn)
        self._end = len(buffer)

    def settle(self) -> None:
        """The buffer goes its own way: only the kinds of the turns are known from here on."""
        self._settled += [turn.kind for turn in self._pending]
        self._pending.clear()

    def seal(self) -> None:
        """The model's turn is closed."""
        self.settle()
        if self._settled and self._settled[-1] == wit.Kind.CUE:
            self._settled[-1] = wit.Kind.ASSISTANT
        elif not self._settled or self._settled[-1] != wit.Kind.ASSISTANT:
            self._settled.append(wit.Kind.ASSISTANT)


def turn(kind: Any, text: str = "", *, name: str = "", tools: list[str] | None = None) -> Any:
    return wit.Turn(kind, text, name, tools or [])


def _alone(model: Model, turn: Any) -> list[int]:
    match turn.kind:
        case wit.Kind.SYSTEM:
            return wit_chat.system(model._raw, turn.text)
        case wit.Kind.USER:
            return wit_chat.user(model._raw, turn.text)
        case wit.Kind.ASSISTANT:
            return wit_chat.assistant(model._raw, turn.text)
        case wit.Kind.TOOLS:
            return ask(wit_tools.equip, model._raw, turn.tools)
        case wit.Kind.ANSWER:
            return wit_tools.answer(model._raw, turn.name, turn.text)
    return wit_chat.cue(model._raw)
