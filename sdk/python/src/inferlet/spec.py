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
        """The last `n` drafted tokens were not accepted."""

    def reset(self) -> None:
        """Goes back to the initial state."""


def agreed(drafts: list[int], chosen: list[int]) -> list[int]:
    """The tokens that a verified draft gives: the drafts that the model agrees with, then its own
    choice. `chosen[i]` is its choice in place of draft i; `chosen` has one token more."""
    for index, draft in enumerate(drafts):
        if chosen[index] != draft:
            return chosen[: index + 1]
    return chosen
