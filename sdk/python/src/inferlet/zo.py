"""Zeroth-order optimisation: adapters moved by seeds and scores (Evolution Strategies)."""

from __future__ import annotations

from collections.abc import Iterable

from wit_world.imports import zo as wit

from .adapter import Adapter
from .errors import ask
from .forward import Forward


def adapter_seed(fwd: Forward, seed: int) -> None:
    """Perturbs a pass's adapter; the same as `fwd.zo_seed(seed)`."""
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
    ask(wit.initialize, adapter._raw, rank, alpha, population_size, mu_fraction, initial_sigma)


def update(
    adapter: Adapter, scores: Iterable[float], seeds: Iterable[int], max_sigma: float
) -> None:
    """Moves the adapter towards the seeds that scored well."""
    ask(wit.update, adapter._raw, [float(s) for s in scores], list(seeds), max_sigma)
