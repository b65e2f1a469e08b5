"""The chat turns of a context, so that the next is written as the template writes it there.

A template renders whole conversations, and what a turn adds depends on where it stands. Turns whose
tokens are still the end of the buffer are pending: they are rendered together, so that the buffer
is the template's own rendering as long as nothing is flushed. Any other use of the buffer settles
them: from then on only their kinds are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wit_world.imports import turns as wit

from .errors import PieError, ask

if TYPE_CHECKING:
    from .model import Model


class Turns:
    __slots__ = ("_end", "_pending", "_settled", "_start")

    def __init__(self, *, in_the_middle: bool = False) -> None:
        """`in_the_middle`: the turns are unknown; a conversation is assumed to be under way."""
        self._settled: list[Any] = [wit.Kind.USER, wit.Kind.ASSISTANT] if in_the_middle else []
        self._pending: list[Any] = []
        self._start = self._end = 0  # tokens in the buffer that belong to pending turns

    def copy(self) -> Turns:
        clone = Turns()
        clone._settled, clone._pending = self._settled.copy(), self._pending.copy()
        clone._start, clone._end = self._start, self._end
        return clone

    def add(self, model: Model, buffer: list[int], turn: Any) -> None:
        """Adds a turn's tokens to the buffer, and renders the pending turns again."""
        if self._pending and len(buffer) != self._end:
            self.settle()
        if not self._pending:
            self._start = len(buffer)
        try:
            tokens = ask(wit.extend, model._raw, self._settled, [*self._pending, turn])
        except PieError:  # not together, for example because they are too many: the new one alone
            self.settle()
            self._start = len(buffer)
            tokens = ask(wit.extend, model._raw, self._settled, [turn])
        buffer[self._start :] = tokens
        self._pending.append(turn)
        self._end = len(buffer)

    def settle(self) -> None:
        """Ends the pending turns: from here on only their kinds are known."""
        self._settled += [turn.kind for turn in self._pending]
        self._pending.clear()

    def seal(self) -> None:
        """Closes the model's turn."""
        self.settle()
        if self._settled and self._settled[-1] == wit.Kind.CUE:
            self._settled[-1] = wit.Kind.ASSISTANT
        elif not self._settled or self._settled[-1] != wit.Kind.ASSISTANT:
            self._settled.append(wit.Kind.ASSISTANT)


def turn(kind: Any, text: str = "", *, name: str = "", tools: list[str] | None = None) -> Any:
    return wit.Turn(kind, text, name, tools or [])
