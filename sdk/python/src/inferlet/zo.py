"""Zeroth-order optimisation: adapters moved by seeds and scores (Evolution Strategies)."""

from __future__ import annotations

from collections.abc import Iterable

from wit_world.imports import zo as wit

from . import _check
from .adapter import MADE_BY, Adapter
from .errors import ask
from .forward import Forward


def adapter_seed(fwd: Forward, seed: int) -> None:
    """Perturbs a pass's adapter; the same as `fwd.zo_seed(seed)`."""
    _check.instance("fwd", fwd, Forward, "ctx.forward()")
    fwd.zo_seed(seed)


def initialize(
    adapter: Adapter,
    rank: int,
    alpha: float,
    population_size: int,
    mu_fraction: float,
    initial_sigma: float,
) -> None:
    """Prepares an adapter for optimisation."""
    _check.instance("adapter", adapter, Adapter, MADE_BY)
    ask(
        wit.initialize,
        adapter._raw,
        _check.whole("rank", rank),
        _check.number("alpha", alpha),
        _check.whole("population_size", population_size),
        _check.number("mu_fraction", mu_fraction),
        _check.number("initial_sigma", initial_sigma),
    )


def update(
    adapter: Adapter, scores: Iterable[float], seeds: Iterable[int], max_sigma: float
) -> None:
    """Moves the adapter towards the seeds that scored well."""
    _check.instance("adapter", adapter, Adapter, MADE_BY)
    ask(
        wit.update,
        adapter._raw,
        [
            _check.number("each of scores", score)
            for score in _check.items("scores", scores, "numbers")
        ],
        [
            _check.zo_seed("each of seeds", seed)
            for seed in _check.items("seeds", seeds, "whole numbers")
        ],
        _check.number("max_sigma", max_sigma),
    )
