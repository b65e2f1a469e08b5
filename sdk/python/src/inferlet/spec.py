"""Speculative decoding with a drafter of your own."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Speculator(Protocol):
    """Guesses the tokens that come next; the model verifies a whole guess in one pass."""

    def draft(self) -> tuple[list[int], list[int]]:
        """Draft tokens and their positions (`[]`: right behind the sequence). `([], [])`: none."""

    def accept(self, tokens: list[int]) -> None:
        """What the model accepted: drafts that it agreed with, then one token of its own."""

    def rollback(self, n: int) -> None:
        """The last `n` drafted tokens were wrong."""

    def reset(self) -> None:
        """Back to the beginning."""


def agreed(drafts: list[int], chosen: list[int]) -> list[int]:
    """What a verified draft comes to. `chosen[i]` is what the model chose in place of draft i, the
    last one what it chose after all: drafts count while it agrees, then its own choice."""
    for index, draft in enumerate(drafts):
        if chosen[index] != draft:
            return chosen[: index + 1]
    return chosen
