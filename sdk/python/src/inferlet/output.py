"""The output of a pass, read through the handles that `sample` and `probe` returned."""

from __future__ import annotations

from typing import Any

from wit_world.imports import inference as wit

from . import _check


class SampleHandle:
    """Where a sampler's slots are: `count` of them from `start`."""

    __slots__ = ("count", "start")

    def __init__(self, start: int, count: int) -> None:
        self.start = start
        self.count = count

    def __repr__(self) -> str:
        return f"SampleHandle(start={self.start}, count={self.count})"


class ProbeHandle:
    """Where a probe's slot is: the `start`-th probe of its pass, at the `index`-th token that the
    pass chose."""

    __slots__ = ("index", "start")

    def __init__(self, start: int, index: int = 0) -> None:
        self.start = start
        self.index = index

    def at(self, index: int) -> ProbeHandle:
        """The same probe at another token of a step that accepted several: `out.entropy(h.at(i))`
        belongs to `out.tokens[i]`. The handle itself reads the first one."""
        return ProbeHandle(self.start, _check.whole("index", index))

    def __repr__(self) -> str:
        return f"ProbeHandle(start={self.start}, index={self.index})"


Handle = SampleHandle | ProbeHandle


class Output:
    """The slots of one pass. Reading a slot through a handle of another kind gives None."""

    __slots__ = ("_auto_sampler", "_raw", "_token", "probe_base", "probe_slots", "tokens")

    def __init__(
        self,
        raw: Any,
        *,
        tokens: list[int] | None = None,
        auto_sampler: SampleHandle | None = None,
        probe_base: int = 0,
        probe_slots: int = 1,
        token: int | None = None,
    ) -> None:
        self._raw = raw
        # Of a step that chose one token and nothing else; `raw` is made from it when it is read.
        self._token = token
        self.tokens: list[int] = [] if tokens is None else tokens
        """Tokens the Generator accepted in this step; empty for a plain `Forward`."""
        self._auto_sampler = auto_sampler
        self.probe_base = probe_base
        """The slot of the first probe."""
        self.probe_slots = probe_slots
        """How many slots a probe has: one for each token that the step chose."""

    @property
    def raw(self) -> Any:
        """The contract's own output: slots and the speculative side channel."""
        if self._raw is None and self._token is not None:
            self._raw = wit.Output([wit.SlotOutput_Token(self._token)], [], [])
        return self._raw

    @property
    def auto_sampler(self) -> SampleHandle | None:
        """The Generator's own sampler; None for a plain `Forward` and after `clear_sampler`."""
        if self._auto_sampler is None and self._token is not None:
            self._auto_sampler = SampleHandle(0, 1)
        return self._auto_sampler

    def token(self, h: Handle | None) -> int | None:
        """The token of a single-row sampler (the first of several). None reads nothing: that is
        what `auto_sampler` is where there is none."""
        if h is None:
            return None
        value = self._read(h, wit.SlotOutput_Token)
        return value if isinstance(h, SampleHandle) else None

    def tokens_at(self, h: Handle | None) -> list[int]:
        """All tokens of a sampler: row by row, and each row's draws together."""
        if not isinstance(h, SampleHandle):
            if h is not None:
                _check_probe(h)
            return []
        slots = self.raw.slots[h.start : h.start + h.count]
        return [slot.value for slot in slots if type(slot) is wit.SlotOutput_Token]

    def distribution(self, h: Handle) -> tuple[list[int], list[float]] | None:
        """Token ids and their probabilities, the likeliest first."""
        return self._read(h, wit.SlotOutput_Distribution)

    def logits(self, h: Handle) -> bytes | None:
        """Native-endian f32, one for each token: `array.array("f", out.logits(h))`."""
        return self._read(h, wit.SlotOutput_Logits)

    def logprobs(self, h: Handle) -> list[float] | None:
        """The log-probabilities that the probe asked for, in its order."""
        return self._read(h, wit.SlotOutput_Logprobs)

    def entropy(self, h: Handle) -> float | None:
        """The Shannon entropy of the distribution."""
        return self._read(h, wit.SlotOutput_Entropy)

    def embedding(self, h: Handle) -> bytes | None:
        """The hidden state that `Embedding()` or `Sampler.embedding()` asked for (the first of
        several rows): native-endian f32, `array.array("f", out.embedding(h))`."""
        return self._read(h, wit.SlotOutput_Embedding)

    def _read(self, handle: Handle, kind: type) -> Any:
        if isinstance(handle, SampleHandle):
            index = handle.start
        elif _check_probe(handle).index < self.probe_slots:
            index = self.probe_base + handle.start * self.probe_slots + handle.index
        else:
            return None
        slots = self.raw.slots
        if index < len(slots) and type(slots[index]) is kind:
            return slots[index].value
        return None


def _check_probe(handle: ProbeHandle) -> ProbeHandle:
    """Fails for what is no handle at all."""
    _check.instance("h", handle, ProbeHandle, "sample() and probe() return handles")
    return handle
