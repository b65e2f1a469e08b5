"""One forward pass: inputs, masks, samplers, probes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from wit_world.imports import inference as wit
from wit_world.imports import outcome, sampling, steps
from wit_world.imports import zo as wit_zo

from . import _check
from ._async import ready, waits
from .adapter import MADE_BY, Adapter
from .errors import PieError, ask
from .output import Output, ProbeHandle, SampleHandle
from .probes import Probe, raw_of
from .sampler import Sampler

if TYPE_CHECKING:
    from .context import Context

U64 = (1 << 64) - 1


async def run_pass(ctx: Context, execute: Callable[[], Any], count: int, slots: int) -> Any:
    """Runs what `execute` queues: `count` inputs, and `slots` outputs asked for. Afterwards `count`
    tokens stand uncommitted in the working pages; none of them if it fails or is cancelled."""
    if ctx._in_pass:
        raise PieError("this context is running a pass; fork() it to run several at once")
    pages = ctx._pages
    pages.reserve(count)
    before = pages.tokens
    ctx._in_pass = True
    ctx._step_owner = None
    try:
        with ask(execute) as future:
            await ready(future.pollable())
            output = future.get()
            # A pass that failed in the queue gives no slots; one that asked for none must be asked.
            if output is None or not slots or len(output.slots) < slots:
                failure = outcome.failure(future)
                if failure is not None:
                    raise PieError(failure)
                if output is None or len(output.slots) < slots:
                    raise PieError(f"the engine gave fewer than {slots} outputs for a pass")
    except BaseException:
        pages.roll_back(before)
        raise
    finally:
        ctx._in_pass = False
    pages.tokens = before + count
    return output


FAILED = 0xFFFF_FFFF  # what `steps.repeat` returns for a pass that failed


def repeat_step(ctx: Context, token: int) -> int:
    """Runs the context's last step again with the next token, and blocks until it has run. Returns
    the token that it chose."""
    pages = ctx._pages
    if pages.tokens == pages.reserved * pages.page_size:
        pages.reserve(1)
    raw = ctx._live()
    chosen = steps.repeat(raw, token)
    if chosen == FAILED:
        ctx._step_owner = None
        pages.roll_back(pages.tokens)
        raise PieError(steps.problem(raw) or "the pass failed")
    pages.tokens += 1
    return chosen


class Forward:
    """One pass: build it, then `execute()` it once. The SDK derives positions, reserves pages and
    commits full ones."""

    __slots__ = ("_auto", "_ctx", "_raw", "_scratch", "_seed", "_slots", "_start")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._raw: Any = wit.ForwardPass(ctx.model._raw)
        self._raw.context(ctx._live())
        self._start = ctx.seq_len
        self._auto = 0  # tokens that extend the context
        self._scratch = 0  # tokens with explicit positions: forgotten after the pass
        self._slots = 0
        self._seed: int | None = None

    def start_position(self) -> int:
        """The position of the first `input` token: `ctx.seq_len` when the pass was made."""
        return self._start

    def page_size(self) -> int:
        """The number of tokens in a KV page of the context."""
        return self._ctx.page_size

    def input(self, tokens: Iterable[int]) -> Forward:
        """Tokens that extend the context, at the positions that follow it."""
        if self._scratch:
            raise ValueError("call input() before input_at(): input_at tokens leave with the pass")
        tokens = _check.tokens("tokens", tokens)
        first = self._start + self._auto
        self._pass().input_tokens(tokens, list(range(first, first + len(tokens))))
        self._auto += len(tokens)
        return self

    def input_at(self, tokens: Iterable[int], positions: Iterable[int]) -> Forward:
        """Tokens at explicit positions, for scoring: they do not advance the context."""
        tokens = _check.tokens("tokens", tokens)
        positions = _check.tokens("positions", positions)
        if len(tokens) != len(positions):
            raise ValueError(f"{len(tokens)} tokens but {len(positions)} positions")
        self._pass().input_tokens(tokens, positions)
        self._scratch += len(tokens)
        return self

    def attention_mask(self, masks: Iterable[Iterable[int]]) -> Forward:
        """Sets one BRLE row for each input token; true = attend."""
        rows = _check.items("masks", masks, "BRLE rows")
        self._pass().attention_mask([_check.tokens("each of masks", row) for row in rows])
        return self

    def mask(self, brle: Iterable[int]) -> Forward:
        """A logit mask (BRLE over the vocabulary) for every sampled row; true = allowed."""
        self._pass().logit_mask(_check.tokens("brle", brle))
        return self

    def sample(self, indices: Iterable[int], sampler: Sampler) -> SampleHandle:
        """Chooses tokens at these input rows."""
        indices = _check.tokens("indices", indices)
        _check.instance("sampler", sampler, Sampler, "Sampler.top_p() and others")
        self._pass().sampler(indices, sampler.raw)
        handle = SampleHandle(self._slots, len(indices) * sampler.draws)
        self._slots += handle.count
        if sampler.seed is not None and self._seed is None:
            self.seed(sampler.seed)
        return handle

    def probe(self, idx: int, probe: Probe) -> ProbeHandle:
        """Reads the distribution at input row `idx`."""
        self._pass().sampler([_check.whole("idx", idx)], raw_of(probe))
        self._slots += 1
        return ProbeHandle(self._slots - 1)

    def adapter(self, a: Adapter) -> Forward:
        """Applies an adapter."""
        _check.instance("a", a, Adapter, MADE_BY)
        self._pass().adapter(a._raw)
        return self

    def zo_seed(self, seed: int) -> Forward:
        """Perturbs the pass's adapter by an Evolution Strategies seed."""
        wit_zo.adapter_seed(self._pass(), _check.zo_seed("seed", seed))
        return self

    def seed(self, seed: int) -> Forward:
        """Makes the pass's random choices reproducible."""
        self._seed = _check.seed("seed", seed) & U64
        sampling.seed(self._pass(), self._seed)
        return self

    @waits
    async def execute(self) -> Output:
        """Runs the pass."""
        raw, self._raw = self._pass(), None
        pages = self._ctx._pages
        with raw:
            output = await run_pass(self._ctx, raw.execute, self._auto + self._scratch, self._slots)
        pages.forget(self._scratch)
        pages.commit()
        return Output(output)

    def _pass(self) -> Any:
        if self._raw is None:
            raise PieError("this pass has been executed; make another with ctx.forward()")
        return self._raw


ForwardPass = Forward  # the older name
