"""Probes read what the model computed at a row, without choosing a token."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from wit_world.imports import inference as wit

from . import _check


class Probe(Protocol):
    """Anything with a `wit` like this one can be probed."""

    def wit(self) -> Any:
        """The probe as the contract spells it."""


@dataclass(frozen=True)
class Logits:
    """Raw logits: `out.logits(h)`, native-endian f32, one for each token of the vocabulary."""

    def wit(self) -> Any:
        """The probe as the contract spells it."""
        return wit.Sampler_RawLogits()


@dataclass(frozen=True)
class Distribution:
    """The `k` likeliest tokens with probabilities (0: all of them): `out.distribution(h)`."""

    temperature: float = 1.0
    """Divides the logits before the softmax."""
    k: int = 0
    """How many tokens; 0 for the whole vocabulary."""

    def wit(self) -> Any:
        """The probe as the contract spells it."""
        temperature = _check.temperature(self.temperature)
        return wit.Sampler_Dist((temperature, _check.whole("k", self.k)))


@dataclass(frozen=True)
class Logprob:
    """The log probability of one token: `out.logprobs(h)`, length 1."""

    token_id: int
    """The token whose probability is asked for."""

    def wit(self) -> Any:
        """The probe as the contract spells it."""
        return wit.Sampler_Logprob(_check.whole("token_id", self.token_id))


@dataclass(frozen=True)
class Logprobs:
    """Log probabilities of several tokens, in this order: `out.logprobs(h)`."""

    token_ids: Iterable[int]
    """The tokens whose probabilities are asked for."""

    def wit(self) -> Any:
        """The probe as the contract spells it."""
        return wit.Sampler_Logprobs(_check.tokens("token_ids", self.token_ids))


@dataclass(frozen=True)
class Entropy:
    """Shannon entropy of the unscaled distribution: `out.entropy(h)`."""

    def wit(self) -> Any:
        """The probe as the contract spells it."""
        return wit.Sampler_Entropy()


@dataclass(frozen=True)
class Embedding:
    """The hidden state of the row after the model's last norm: `out.embedding(h)`, native-endian
    f32."""

    def wit(self) -> Any:
        """The probe as the contract spells it."""
        return wit.Sampler_Embedding()


def raw_of(probe: Probe) -> Any:
    """The probe as the contract spells it, of an argument that must be a probe."""
    _check.with_methods("probe", probe, ("wit",), "a probe (Entropy(), Logits() and others)")
    if isinstance(probe, type):
        raise TypeError(f"probe must be a value, not the class: {probe.__name__}()")
    return probe.wit()
