"""Masks as run lengths (BRLE): runs of false and true in turn, false first (perhaps 0 long).

`[3, 2, 5]` is fff tt fffff. As a logit mask, true means allowed, and the empty list restricts
nothing. What lies past the end of a mask is false.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import _check


def allow(ids: Iterable[int]) -> list[int]:
    """The mask that is true at `ids` only."""
    runs: list[int] = []
    end = 0  # first position after the last run
    for token in sorted(set(_check.tokens("ids", ids))):
        if runs and token == end:
            runs[-1] += 1
        else:
            runs += (token - end, 1)
        end = token + 1
    return runs


def ids(mask: list[int]) -> list[int]:
    """The positions at which `mask` is true."""
    found: list[int] = []
    position = 0
    for index, run in enumerate(_check.tokens("mask", mask)):
        if index & 1:
            found.extend(range(position, position + run))
        position += run
    return found


def intersect(a: list[int], b: list[int]) -> list[int]:
    """The mask that is true where both are. Its cost grows with the number of runs alone."""
    out: list[int] = []
    value = False  # what the last run of `out` holds; the first run is false
    out.append(0)
    i = j = 0
    left_a = a[0] if a else 0
    left_b = b[0] if b else 0
    while True:
        while left_a == 0:
            i += 1
            if i >= len(a):
                return out
            left_a = a[i]
        while left_b == 0:
            j += 1
            if j >= len(b):
                return out
            left_b = b[j]
        run = left_a if left_a < left_b else left_b
        both = bool(i & j & 1)
        if both is value:
            out[-1] += run
        else:
            out.append(run)
            value = both
        left_a -= run
        left_b -= run


def is_none(mask: list[int]) -> bool:
    """Whether a logit mask allows no token. An empty mask allows all."""
    return bool(mask) and not any(mask[1::2])
