"""How a token is chosen. Temperature 0 is greedy for every sampler."""

from __future__ import annotations

from typing import Any

from wit_world.imports import inference as wit

from . import _check


class Sampler:
    """Immutable; make one with the constructors below and use it as often as you like."""

    __slots__ = ("chooses", "draws", "raw", "seed")

    def __init__(
        self, raw: Any, *, draws: int = 1, seed: int | None = None, chooses: bool = True
    ) -> None:
        self.raw = raw  # the contract's variant, built once so that steps do not build it
        self.draws = draws  # output slots for each row
        self.seed = None if seed is None else _check.seed("seed", seed)
        self.chooses = chooses  # whether it chooses a token (not an embedding or a distribution)

    def __repr__(self) -> str:
        return f"Sampler({self.raw!r})"

    @staticmethod
    def argmax() -> Sampler:
        """Greedy."""
        return Sampler(wit.Sampler_TopK((0.0, 1)))

    greedy = argmax

    @staticmethod
    def top_p(
        temperature: float = 0.6,
        p: float = 0.95,
        *,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> Sampler:
        """Nucleus sampling. `top_p=` is the older name of `p=`."""
        p = p if top_p is None else top_p
        return Sampler(
            wit.Sampler_TopP((_check.temperature(temperature), _check.share("p", p))), seed=seed
        )

    @staticmethod
    def top_k(
        temperature: float = 0.6,
        k: int = 50,
        *,
        top_k: int | None = None,
        seed: int | None = None,
    ) -> Sampler:
        """The `k` likeliest tokens. `top_k=` is the older name of `k=`."""
        k = k if top_k is None else top_k
        return Sampler(
            wit.Sampler_TopK((_check.temperature(temperature), _check.whole("k", k))), seed=seed
        )

    @staticmethod
    def min_p(
        temperature: float = 0.6,
        p: float = 0.1,
        *,
        min_p: float | None = None,
        seed: int | None = None,
    ) -> Sampler:
        """Tokens at least `p` times as likely as the likeliest. `min_p=` is the older name."""
        p = p if min_p is None else min_p
        return Sampler(
            wit.Sampler_MinP((_check.temperature(temperature), _check.share("p", p))), seed=seed
        )

    @staticmethod
    def top_k_top_p(
        temperature: float = 0.6,
        k: int = 50,
        p: float = 0.95,
        *,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> Sampler:
        """Top-k, then nucleus."""
        k = k if top_k is None else top_k
        p = p if top_p is None else top_p
        parts = (_check.temperature(temperature), _check.whole("k", k), _check.share("p", p))
        return Sampler(wit.Sampler_TopKTopP(parts), seed=seed)

    @staticmethod
    def multinomial(
        temperature: float = 1.0, draws: int = 1, *, seed: int | None = None
    ) -> Sampler:
        """`draws` independent draws at each row: `out.tokens_at(h)` holds them all. In the older
        API the second argument is the seed: 0 is its default there, and means one draw here."""
        draws = _check.whole("draws", draws)
        if draws == 0:
            draws, seed = 1, 0 if seed is None else seed
        raw = wit.Sampler_Multinomial((_check.temperature(temperature), draws))
        return Sampler(raw, draws=draws, seed=seed)

    @staticmethod
    def embedding() -> Sampler:
        """The hidden state of the row after the model's last norm, instead of a token:
        `out.embedding(h)`. The probe `Embedding()` reads the same."""
        return Sampler(wit.Sampler_Embedding(), chooses=False)

    @staticmethod
    def dist(temperature: float = 1.0, seed: int | None = None) -> Sampler:
        """The whole distribution instead of a token: `out.distribution(h)`. Nothing is drawn, so
        `seed`, a parameter of the older API, changes nothing."""
        return Sampler(wit.Sampler_Dist((_check.temperature(temperature), 0)), chooses=False)
