"""Speculative decoding with a drafter of your own."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Speculator(Protocol):
    """Guesses the tokens that come next; the model verifies a whole guess in one pass."""

    def draft(self) -> tuple[list[int], list[int]]:
        """Draft tokens and their positions (`[]`: after the sequence). `([], [])`: none."""
        ...

    def accept(self, tokens: list[int]) -> None:
        """Takes the accepted tokens: the drafts that the model chose too, and one of its own."""
        ...

    def rollback(self, n: int) -> None:
        """The last `n` drafted tokens were not accepted: the model chose another token, a
        constraint refuses them, or the generation has ended before them."""
        ...

    def reset(self) -> None:
        """Goes back to the initial state. It is called when the generation has ended."""
        ...
