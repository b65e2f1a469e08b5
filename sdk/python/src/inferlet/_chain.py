"""A generation run to its end, in batches of accepted tokens.

`Chained`: the engine runs the loop. It feeds each chosen token into the next pass, and wakes the
program for several tokens at once. `Stepped`: something has to be decided here between two passes,
and a batch is one step of `_step.py`. The tokens, and the context after each batch, are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from wit_world.imports import chains
from wit_world.imports import inference as wit

from ._async import ready
from .errors import PieError, ask

if TYPE_CHECKING:
    from ._step import StepLoop

U32_MAX = 0xFFFF_FFFF


def run(loop: StepLoop, ends: Iterable[int] = ()) -> Chained | Stepped:
    """Starts the loop: `with run(loop) as batches:`. A chained one also ends at the ids `ends`,
    which it accepts."""
    if loop._chainable and loop._begin(engine_matches=True):
        try:
            return Chained(loop, ends)
        except ChainRefused:
            pass  # the configuration has switched chains off, or a single pass tells what is wrong
    return Stepped(loop)


class ChainRefused(Exception):
    """Raised where the engine does not run this generation by itself."""


class Stepped:
    """Batches of one step each."""

    __slots__ = ("_loop",)

    def __init__(self, loop: StepLoop) -> None:
        self._loop = loop

    def __enter__(self) -> Stepped:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def next(self) -> list[int] | None:
        """The tokens accepted by the next step; None at the end."""
        return (await self._loop._run()).tokens if self._loop._begin() else None


class Chained:
    """Batches that the engine chooses by itself. Leaving the `with` block ends the chain; the
    context forgets the tokens that were not taken."""

    __slots__ = ("_before", "_chain", "_ended", "_held", "_loop", "_started")

    def __init__(self, loop: StepLoop, ends: Iterable[int] = ()) -> None:
        ctx = loop._ctx
        ctx._turns.settle()
        if ctx._in_pass:
            raise PieError("this context is running a pass; fork() it to run several at once")
        start, pending = ctx.seq_len, len(ctx._buffer)
        self._loop = loop
        self._ended = False
        self._started = False  # whether a token was taken
        self._held = pending  # tokens at the front of the buffer that the engine has
        loop._expect()
        ctx._pages.reserve(pending)
        self._before = ctx._pages.tokens
        limit = U32_MAX if loop._limit is None else min(U32_MAX, loop._limit - loop._count)
        with wit.ForwardPass(ctx.model._raw) as raw:
            raw.context(ctx._live())
            if pending:
                raw.input_tokens(ctx._buffer, list(range(start, start + pending)))
            raw.sampler([max(0, pending - 1)], loop._sampler.raw)
            loop._configure(raw, loop._matchers())
            try:
                self._chain: Any = ask(chains.run, raw, limit, [*loop._stop, *ends])
            except PieError as error:
                raise ChainRefused from error
        ctx._in_pass = True
        ctx._step_owner = None

    def __enter__(self) -> Chained:
        return self

    def __exit__(self, *_: object) -> None:
        ctx = self._loop._ctx
        ctx._in_pass = False
        self._chain.__exit__(None, None, None)
        if not self._started:
            ctx._pages.roll_back(self._before)

    async def next(self) -> list[int] | None:
        """The tokens accepted since the last call; None at the end."""
        while not self._ended:
            progress = ask(self._chain.take)
            self._ended = progress.ended is not None
            if progress.ended == chains.Ending.COMPLETE:
                self._loop._done = True
            if progress.tokens:
                return self._accept(list(progress.tokens))
            if progress.ended == chains.Ending.CANCELLED:
                raise PieError(
                    "the generation was cancelled: its context was used for another pass"
                )
            if not self._ended:
                await ready(self._chain.pollable())
        return None

    def _accept(self, tokens: list[int]) -> list[int]:
        """The engine has computed all of these tokens but the last, which waits in the buffer."""
        loop = self._loop
        ctx = loop._ctx
        accepted = loop._register(tokens)
        loop._fresh.clear()  # the matchers have followed what was taken
        loop._steps += len(tokens)
        self._started = True
        ctx._buffer[: self._held] = waiting = accepted[len(tokens) - 1 :]
        self._held = len(waiting)
        ctx._pages.sync()
        return accepted
