"""The generation loop itself: buffer → pass → choose → cut → accept, until done.

`StepLoop` holds the state of one generation and runs its passes; `Generator` is its public face.
The context's buffer is the input of the next pass; what was accepted last goes back into it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from wit_world.imports import bidding, sampling, steps
from wit_world.imports import inference as wit
from wit_world.imports import zo as wit_zo

from .constraint import GrammarConstraint, StaticMask, next_mask
from .errors import PieError, ask
from .forward import U64, run_pass
from .output import Output, SampleHandle
from .spec import agreed

if TYPE_CHECKING:
    from .adapter import Adapter
    from .context import Context
    from .sampler import Sampler
    from .spec import Speculator


FEW_TOKENS = 16  # more are a prompt, which takes its time anyway


class OwnChoice(NamedTuple):
    """What a step accepted by itself, and where it is: `accept` may take it back."""

    tokens: int
    buffered: int  # of them, at the front of the buffer
    cached: int  # drafts among them, in the working pages
    seq_len: int


class StepLoop:
    def __init__(self, ctx: Context, sampler: Sampler) -> None:
        if not sampler.chooses:
            raise ValueError(f"{sampler} chooses no token; use it with ctx.forward()")
        self._ctx = ctx
        self._sampler = sampler
        self._limit: int | None = None
        self._stop: frozenset[int] = frozenset()
        self._constraints: list[Any] = []
        self._speculator: Speculator | None = None
        self._system_speculation = False
        self._adapter: Adapter | None = None
        self._zo_seed: int | None = None
        self._horizon: int | None = None
        self._seed: int | None = sampler.seed
        self._probes: list[tuple[int, Any]] = []  # (offset from the sampled row, wit sampler)

        self._count = 0
        self._steps = 0
        self._done = False
        self._mask: list[int] = []
        self._fresh: list[int] = []  # accepted; constraints and speculator do not know yet
        self._own_choice: OwnChoice | None = None
        self._expects_anew = True  # the engine does not know how many passes are still to come
        self._engine_drafts: tuple[list[int], list[int]] = ([], [])

    def _begin(self) -> bool:
        """Is there another step? What was accepted is final now: tells it to the constraints and
        the speculator, and takes the mask."""
        self._own_choice = None
        if self._limit is not None and self._count >= self._limit:
            self._done = True
        if not self._done and not self._ctx._buffer:
            raise PieError(
                "empty input: nothing to generate from; fill the context (ctx.user, ctx.append, "
                "ctx.cue), or accept() a token after clear_sampler()"
            )
        fresh, self._fresh = self._fresh, []
        if fresh and self._speculator is not None:
            self._speculator.accept(fresh)
        if self._done:
            return False
        if self._constraints:
            self._mask = next_mask(self._constraints, fresh)
            for constraint in self._constraints:
                if type(constraint) is GrammarConstraint and constraint.is_terminated:
                    self._done = True
                    return False
        return True

    @property
    def _chainable(self) -> bool:
        """Nothing has to be decided here between two tokens: the engine may run the loop."""
        return (
            self._speculator is None
            and not self._system_speculation
            and not self._probes
            and all(type(constraint) is StaticMask for constraint in self._constraints)
        )

    async def _run(self, step: Any = None) -> Output:
        """One pass, folded into the state. A GenStep may add probes, drop the sampler."""
        ctx, sampler = self._ctx, self._sampler
        ctx._turns.settle()
        start, pending = ctx.seq_len, len(ctx._buffer)
        row = pending - 1  # the row whose choice continues the sequence
        drafts, positions = self._drafts(start + pending)
        rows = 0 if step is not None and step._cleared else len(drafts) + 1
        own_slots = rows * sampler.draws
        slots = own_slots + len(self._probes)
        inputs = pending + len(drafts) + len(self._engine_drafts[0])
        if self._expects_anew:
            self._expect()

        if rows == 1 and inputs <= FEW_TOKENS and self._is_plain(step):
            output = await run_pass(ctx, self._begin_short, inputs, slots)
        else:
            with wit.ForwardPass(ctx.model._raw) as raw:
                raw.context(ctx._live())
                raw.input_tokens(
                    ctx._buffer + drafts if drafts else ctx._buffer,
                    [*range(start, start + pending), *positions],
                )
                if rows:
                    raw.sampler(list(range(row, row + rows)), sampler.raw)
                for offset, probe in self._probes:
                    raw.sampler([row + offset], probe)
                if step is not None:
                    slots += len(step._probes)
                    for index, probe in step._probes:
                        raw.sampler([index], probe)
                self._configure(raw)
                output = await run_pass(ctx, raw.execute, inputs, slots)

        self._steps += 1
        del ctx._buffer[:pending]
        waiting = len(ctx._buffer)
        # Drafts of the engine that it kept come as further tokens in front.
        own_slots += len(output.slots) - slots
        chosen = [slot.value for slot in output.slots[: own_slots : sampler.draws]]
        if self._system_speculation:
            tokens, cached = self._settle_engine_drafts(output, chosen, start + pending)
        else:
            tokens, cached = self._settle(drafts, chosen)
        if rows:
            self._own_choice = OwnChoice(
                len(tokens), len(ctx._buffer) - waiting, cached, ctx.seq_len
            )
        ctx._pages.commit(held_back=cached)
        if len(tokens) > 1:
            self._expects_anew = True  # the engine counts passes, not tokens
        return Output(
            output,
            tokens=tokens,
            auto_sampler=SampleHandle(0, own_slots) if rows else None,
            probe_base=own_slots,
        )

    def _expect(self) -> None:
        """Tells the engine how many passes are still to come, from which it bids. It counts them
        down by itself."""
        self._expects_anew = False
        steps, variation = None, 1.0
        if self._horizon is not None:
            steps, variation = max(1.0, self._horizon - self._count), 0.0
        elif self._limit is not None:
            steps = max(1.0, self._limit - self._count)
        ask(bidding.expect, self._ctx._live(), steps, variation)

    def _is_plain(self, step: Any) -> bool:
        """Nothing is asked for but the sampler."""
        return (
            not self._probes
            and (step is None or not step._probes)
            and self._adapter is None
            and self._zo_seed is None
            and not self._system_speculation
        )

    def _begin_short(self) -> Any:
        """The same pass in one call."""
        seed = None if self._seed is None else (self._seed + self._steps) & U64
        ctx = self._ctx
        return steps.begin(ctx._live(), ctx._buffer, self._mask, seed, self._sampler.raw)

    def _configure(self, raw: Any) -> None:
        if self._mask:
            raw.logit_mask(self._mask)
        if self._adapter is not None:
            raw.adapter(self._adapter._raw)
        if self._zo_seed is not None:
            wit_zo.adapter_seed(raw, self._zo_seed)
        if self._seed is not None:
            sampling.seed(raw, (self._seed + self._steps) & U64)
        if self._system_speculation:
            raw.output_speculative_tokens(True)
            if self._engine_drafts[0]:
                raw.input_speculative_tokens(*self._engine_drafts)

    def _register(self, tokens: list[int]) -> list[int]:
        """Cuts at the first stop id, then at max_tokens; counts and returns what is left."""
        for index, token in enumerate(tokens):
            if token in self._stop:
                tokens = tokens[:index]
                self._done = True
                break
        if self._limit is not None and self._count + len(tokens) >= self._limit:
            tokens = tokens[: self._limit - self._count]
            self._done = True
        self._count += len(tokens)
        self._fresh += tokens
        return tokens

    def _take_back(self) -> bool:
        """Undoes what the step accepted by itself. Not if there is nothing to undo, nor once the
        program has computed it (`ctx.flush()`)."""
        own, self._own_choice = self._own_choice, None
        if own is None or own.seq_len != self._ctx.seq_len:
            return False
        del self._ctx._buffer[: own.buffered]
        self._ctx._pages.forget(own.cached)
        if own.tokens:
            del self._fresh[-own.tokens :]
        self._count -= own.tokens
        self._done = False
        return True

    # Speculation.

    def _drafts(self, position: int) -> tuple[list[int], list[int]]:
        """The custom drafter's guess; none under a mask, which would hold for one row only."""
        if self._speculator is None or self._mask:
            return [], []
        tokens, positions = self._speculator.draft()
        if not positions:
            positions = list(range(position, position + len(tokens)))
        elif len(positions) != len(tokens):
            raise ValueError(f"draft() gave {len(tokens)} tokens but {len(positions)} positions")
        return list(tokens), list(positions)

    def _settle(self, drafts: list[int], chosen: list[int]) -> tuple[list[int], int]:
        """Accepts what the model chose, keeps the drafts that it agreed with, forgets the others.
        `chosen` is empty after `clear_sampler`: the program accepts for itself.
        Gives the accepted tokens, and how many of them are drafts in the cache."""
        ctx = self._ctx
        verified = agreed(drafts, chosen) if chosen else []
        tokens = self._register(verified)
        kept = 0  # drafts that stay in the cache
        if drafts:
            kept = min(len(tokens), max(0, len(verified) - 1))
            if kept == len(tokens) > 0 and self._count == self._limit:
                kept -= 1  # as without drafts: at the limit, the last token waits in the buffer
            ctx._pages.forget(len(drafts) - kept)
            accepted = min(len(tokens), max(0, len(verified) - 1))
            if len(drafts) > accepted:
                self._speculator.rollback(len(drafts) - accepted)
        ctx._buffer[:0] = tokens[kept:]
        return tokens, kept

    def _settle_engine_drafts(
        self, output: Any, chosen: list[int], without_drafts: int
    ) -> tuple[list[int], int]:
        """The engine verified its own drafts and moved the context itself."""
        tokens = self._register(chosen)
        self._engine_drafts = (output.spec_tokens, output.spec_positions)
        self._ctx._pages.sync()
        self._ctx._buffer[:0] = tokens[-1:]
        return tokens, self._ctx.seq_len - without_drafts
