"""The generation loop itself: buffer → pass → choose → cut → accept, until done.

`StepLoop` holds the state of one generation and runs its passes; `Generator` is its public face.
The context's buffer is the input of the next pass; what was accepted last goes back into it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from wit_world.imports import bidding, sampling, steps
from wit_world.imports import constraints as wit_constraints
from wit_world.imports import inference as wit
from wit_world.imports import zo as wit_zo

from . import _check, brle
from ._async import may_block
from .constraint import is_complete, matcher_of, name_of, next_mask
from .errors import PieError, ask
from .forward import U64, repeat_step, run_pass
from .output import Output, SampleHandle
from .sampler import Sampler

if TYPE_CHECKING:
    from .adapter import Adapter
    from .context import Context
    from .spec import Speculator


FEW_TOKENS = 16  # more are a prompt, which takes its time anyway


class OwnChoice(NamedTuple):
    """The tokens that a step accepted by itself, and where they are: `accept` may undo it."""

    tokens: int
    buffered: int  # of them, at the front of the buffer
    cached: int  # drafts among them, in the working pages
    seq_len: int


class StepLoop:
    def __init__(self, ctx: Context, sampler: Sampler) -> None:
        _check.instance("sampler", sampler, Sampler, "Sampler.top_p() and others")
        if not sampler.chooses:
            raise ValueError(f"{sampler} chooses no token; use it with ctx.forward()")
        self._ctx = ctx
        self._sampler = sampler
        self._limit: int | None = None
        self._stop: frozenset[int] = frozenset()
        self._constraints: list[Any] = []
        self._static_mask: list[int] = []
        self._speculator: Speculator | None = None
        self._system_speculation = False
        self._adapter: Adapter | None = None
        self._zo_seed: int | None = None
        self._horizon: int | None = None
        self._seed: int | None = sampler.seed
        self._probes: list[tuple[int, Any]] = []  # (offset from the sampled row, wit sampler)

        self._accepted: list[int] = []  # in this generation
        self._count = 0
        self._steps = 0
        self._done = False
        self._mask: list[int] | None = None  # number of the next step; None: not known
        self._was_reset = False  # the speculator knows of the end
        self._fresh: list[int] = []  # accepted; constraints and speculator do not know yet
        self._own_choice: OwnChoice | None = None
        self._expects_anew = True  # the engine does not know how many passes are still to come
        self._engine_drafts: tuple[list[int], list[int]] = ([], [])

    def _begin(self, engine_matches: bool | None = None) -> bool:
        """Whether there is another step. Accepted tokens are final now: tells them to the
        constraints and the speculator, and takes the mask unless the engine applies them."""
        self._own_choice = None
        if self._limit is not None and self._count >= self._limit:
            self._done = True
        # A generation may begin after what was flushed: it samples the last position.
        if not self._done and not self._ctx._buffer and (self._steps or not self._ctx.seq_len):
            raise PieError(
                "empty input: nothing to generate from; fill the context (ctx.user, ctx.append, "
                "ctx.cue), or accept() a token after clear_sampler()"
            )
        fresh, self._fresh = self._fresh, []
        if not self._done and (self._constraints or self._mask is None):
            if engine_matches is None:
                engine_matches = self._engine_matches
            self._advance_constraints(fresh, engine_matches)
        if self._speculator is not None:
            if fresh:
                self._speculator.accept(fresh)
            if self._done and not self._was_reset:
                self._was_reset = True
                self._speculator.reset()
        return not self._done

    def _advance_constraints(self, fresh: list[int], engine_matches: bool) -> None:
        if self._mask is not None and not fresh:
            return
        if engine_matches:
            mask = self._static_mask
            for matcher in self._matchers() if fresh else ():
                matcher.accept_tokens(fresh)
        else:
            mask = next_mask(self._constraints, self._static_mask, fresh)
        if is_complete(self._constraints):
            self._done = True
        elif brle.is_none(mask):
            raise PieError(self._nothing_allowed())
        self._mask = None if engine_matches else mask

    def _nothing_allowed(self) -> str:
        names = [name_of(constraint) for constraint in self._constraints]
        if self._static_mask:
            names.append("the logit mask")
        return (
            f"no token is allowed at position {self._count} of the text by all of: "
            f"{', '.join(names)}"
        )

    def _matchers(self) -> list[Any]:
        """The matchers behind the constraints. A constraint of the program's own has none."""
        found = (matcher_of(constraint) for constraint in self._constraints)
        return [matcher for matcher in found if matcher is not None]

    @property
    def _engine_matches(self) -> bool:
        """Whether the engine applies the constraints to the steps. It does where tokens are
        drafted, because a mask holds for one position only."""
        return (self._speculator is not None or self._system_speculation) and self._all_match

    @property
    def _all_match(self) -> bool:
        return all(matcher_of(constraint) is not None for constraint in self._constraints)

    @property
    def _chainable(self) -> bool:
        """Nothing has to be decided here between two tokens: the engine may run the loop. It
        follows matchers by itself."""
        return self._speculator is None and not self._probes and self._all_match

    def _repeats(self, step: Any) -> bool:
        """Whether the next step is a plain one like the last, and nothing else can run."""
        ctx = self._ctx
        return (
            ctx._step_owner is self
            and len(ctx._buffer) == 1
            and not ctx._in_pass
            and not (self._mask or self._expects_anew)
            and (step is None or not step._cleared)
            and self._is_plain(step)
            and may_block()
        )

    def _repeat(self) -> Output:
        """Does what `_run` does for a step like the last one, in one call."""
        ctx = self._ctx
        ctx._turns.settle()
        chosen = repeat_step(ctx, ctx._buffer[0])
        self._steps += 1
        tokens = ctx._buffer = self._register([chosen])
        count = len(tokens)
        self._own_choice = OwnChoice(count, count, 0, ctx.seq_len)
        pages = ctx._pages
        if pages.tokens >= pages.page_size:
            pages.commit()
        return Output(None, tokens=tokens.copy(), token=chosen)

    async def _run(self, step: Any = None) -> Output:
        """One pass, folded into the state. A GenStep may add probes, drop the sampler."""
        if self._repeats(step):
            return self._repeat()
        ctx, sampler = self._ctx, self._sampler
        ctx._turns.settle()
        start, pending = ctx.seq_len, len(ctx._buffer)
        # The row whose choice continues the sequence. Without input, it is the last position.
        row = max(0, pending - 1)
        samples = step is None or not step._cleared
        probes = self._probes if step is None else self._probes + step._probes
        # Probes of the sampled row read the drafts too; one of another row cannot.
        may_draft = samples and pending > 0 and all(offset == 0 for offset, _ in probes)
        drafted, drafts, positions = self._drafts(start + pending) if may_draft else (0, [], [])
        own_slots = sampler.draws if samples else 0
        slots = own_slots + len(probes)
        inputs = pending + len(drafts)
        if self._expects_anew:
            self._expect()

        if samples and 0 < inputs <= FEW_TOKENS and self._is_plain(step):
            output = await run_pass(ctx, self._begin_short, inputs, slots)
            if sampler.draws == 1 and not self._mask:
                ctx._step_owner = self
        else:
            with wit.ForwardPass(ctx.model._raw) as raw:
                raw.context(ctx._live())
                if pending:
                    raw.input_tokens(ctx._buffer, list(range(start, start + pending)))
                if samples:
                    raw.sampler([row], sampler.raw)
                for offset, probe in probes:
                    raw.sampler([row + offset], probe)
                if drafts:
                    raw.input_speculative_tokens(drafts, positions)
                self._configure(raw, self._matchers() if self._engine_matches else [])
                output = await run_pass(ctx, raw.execute, inputs, slots)

        del ctx._buffer[:pending]
        waiting = len(ctx._buffer)
        # The engine gives the sampler and every probe a slot more for each draft that it kept. It
        # took the others back.
        kept = (len(output.slots) - slots) // (1 + len(probes))
        ctx._pages.tokens -= len(drafts) - kept
        self._steps += kept + 1  # each chosen token counts as one step
        own_slots += kept
        if self._system_speculation:
            self._engine_drafts = (output.spec_tokens, output.spec_positions)
        tokens: list[int] = []
        cached = 0
        if samples:
            chosen = [slot.value for slot in output.slots[: own_slots : sampler.draws]]
            tokens, cached = self._settle(drafted, kept, chosen)
            self._own_choice = OwnChoice(
                len(tokens), len(ctx._buffer) - waiting, cached, ctx.seq_len
            )
        ctx._pages.commit(held_back=cached)
        if len(tokens) > 1:
            self._expects_anew = True  # the engine counts passes, not tokens
        return Output(
            output,
            tokens=tokens,
            auto_sampler=SampleHandle(0, own_slots) if samples else None,
            probe_base=own_slots,
            probe_slots=kept + 1,
        )

    def _expect(self) -> None:
        """Tells the engine how many passes are still to come, for its bids. The engine counts
        them down by itself."""
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
            and self._speculator is None
            and not self._system_speculation
        )

    def _begin_short(self) -> Any:
        """The same pass in one call."""
        seed = None if self._seed is None else (self._seed + self._steps) & U64
        ctx = self._ctx
        return steps.begin(ctx._live(), ctx._buffer, self._mask or [], seed, self._sampler.raw)

    def _configure(self, raw: Any, matchers: list[Any]) -> None:
        """The parts of a request that a step and a chain have in common. The engine applies the
        matchers.
        """
        if mask := self._static_mask if self._mask is None else self._mask:
            raw.logit_mask(mask)
        for matcher in matchers:
            ask(wit_constraints.constrain, raw, matcher._raw)
        if self._adapter is not None:
            raw.adapter(self._adapter._raw)
        if self._zo_seed is not None:
            wit_zo.adapter_seed(raw, self._zo_seed)
        if self._seed is not None:
            sampling.seed(raw, (self._seed + self._steps) & U64)
        if self._system_speculation:
            raw.output_speculative_tokens(True)

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
        self._accepted += tokens
        return tokens

    def _take_back(self) -> bool:
        """Undoes what the step accepted by itself. Does nothing if there is nothing to undo, or if
        the program has computed it (`ctx.flush()`)."""
        own, self._own_choice = self._own_choice, None
        if own is None or own.seq_len != self._ctx.seq_len:
            return False
        del self._ctx._buffer[: own.buffered]
        self._ctx._pages.forget(own.cached)
        if own.tokens:
            del self._fresh[-own.tokens :]
            del self._accepted[-own.tokens :]
        self._count -= own.tokens
        self._done = False
        return True

    # Speculation.

    def _drafts(self, position: int) -> tuple[int, list[int], list[int]]:
        """How many tokens were drafted; those to verify in this step, and their positions. There
        are none beside a constraint of the program's own, whose mask holds for one position."""
        if self._speculator is None and not self._system_speculation:
            return 0, [], []
        room = None if self._limit is None else self._limit - self._count - 1
        if not self._engine_matches or self._sampler.draws > 1 or (room is not None and room < 1):
            return 0, [], []
        if self._speculator is not None:
            tokens, positions = self._speculator.draft()
        else:
            (tokens, positions), self._engine_drafts = self._engine_drafts, ([], [])
        tokens = _check.tokens("the tokens of draft()", tokens)
        positions = _check.tokens("the positions of draft()", positions)
        if not positions:
            positions = list(range(position, position + len(tokens)))
        elif len(positions) != len(tokens):
            raise ValueError(
                f"draft() returned {len(tokens)} tokens but {len(positions)} positions"
            )
        return len(tokens), tokens[:room], positions[:room]

    def _settle(self, drafted: int, kept: int, chosen: list[int]) -> tuple[list[int], int]:
        """Accepts what the model chose: `kept` drafts, which are in the cache, and a token after
        them. Gives the accepted tokens, and how many of them are drafts in the cache."""
        ctx = self._ctx
        tokens = self._register(chosen)
        # The last token waits in the buffer, as it does without drafts. Only in front of a stop
        # token nothing waits.
        stopped = len(tokens) < len(chosen) and self._count != self._limit
        cached = min(kept, len(tokens) if stopped else max(0, len(tokens) - 1))
        ctx._pages.forget(kept - cached)
        accepted = min(kept, len(tokens))
        if self._speculator is not None and accepted < drafted:
            self._speculator.rollback(drafted - accepted)
        ctx._buffer[:0] = tokens[cached:]
        return tokens, cached
