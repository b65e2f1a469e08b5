"""Passes of the fake engine, single and in chains. The logits are a hash."""

from __future__ import annotations

import random
import struct
from types import SimpleNamespace
from typing import Any

from engine_chat import Model
from engine_contexts import Context
from engine_grammar import Matcher
from engine_modules import MODULES
from engine_resources import (
    IM_END,
    PAGE,
    PASS_NS,
    STOP_AFTER,
    VOCAB,
    Err,
    Future,
    Pollable,
    Resource,
    state,
)


def logits(history: list[int]) -> list[float]:
    """Lower-case gibberish, then the end of the turn."""
    draw = random.Random(str(history))
    row = [draw.random() + (2.0 if 97 <= token < 123 else 0.0) for token in range(VOCAB)]
    if len(history) >= STOP_AFTER:
        row[IM_END] = 9.0
    return row


class ForwardPass(Resource):
    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.samplers: list[tuple[list[int], Any]] = []
        self.mask: list[int] = []
        self.matchers: list[Matcher] = []
        self.drafts: list[int] = []
        self.wants_drafts = False
        self.seed: int | None = None
        self.ctx: Context | None = None

    def context(self, context: Context) -> None:
        context.use()
        self.ctx = context

    def input_tokens(self, tokens: list[int], positions: list[int]) -> None:
        assert len(tokens) == len(positions)
        self.tokens += tokens
        self.positions += positions

    def input_speculative_tokens(self, tokens: list[int], positions: list[int]) -> None:
        assert len(tokens) == len(positions)
        state.drafted.append((list(tokens), list(positions)))
        self.drafts = list(tokens)

    def output_speculative_tokens(self, enable: bool) -> None:
        self.wants_drafts = enable

    def attention_mask(self, rows: list[list[int]]) -> None:
        assert len(rows) == len(self.tokens)

    def logit_mask(self, mask: list[int]) -> None:
        self.mask = mask

    def sampler(self, indices: list[int], sampler: Any) -> None:
        self.samplers.append((indices, sampler))

    def execute(self) -> Future:
        self.use()
        state.calls["execute"] += 1
        if not self.tokens:
            raise Err("empty input: the pass has no tokens")
        ctx = self.ctx
        room = ctx.pages * PAGE - len(ctx.working)
        wanted = len(self.tokens) + len(self.drafts)
        assert room >= wanted, f"{wanted} tokens but room for {room}"
        history = ctx.committed + ctx.working
        ctx.working += self.tokens
        slots = []
        for indices, sampler in self.samplers:
            for row in indices:
                assert 0 <= row < len(self.tokens), f"no row {row}"
                slots += self.read(logits(history + self.tokens[: row + 1]), sampler, row)
                if row == len(self.tokens) - 1 and hasattr(sampler, "value"):
                    slots += self.verify(slots[-1], sampler, row)
        failure, state.fail_next = state.fail_next, None
        if failure is not None:
            slots = []
        ahead = [98] if self.wants_drafts else []
        output = MODULES["inference"].Output(slots, ahead, [len(ctx.working) + 1] * len(ahead))
        due = state.now + PASS_NS
        future = Future(lambda: due, lambda: output, self)
        future.failure = failure
        return future

    def verify(self, chosen: Any, sampler: Any, index: int) -> list[Any]:
        """Returns the tokens after the chosen one, as long as the drafts are right."""
        if type(chosen).__name__ != "SlotOutput_Token":
            return []
        more: list[Any] = []
        matchers = [matcher.copy() for matcher in self.matchers]
        kept, self.matchers = self.matchers, matchers
        for draft in self.drafts:
            if chosen.value != draft:
                break
            for matcher in matchers:
                matcher.accept_tokens([draft])
            if any(matcher.is_terminated() for matcher in matchers):
                break
            self.ctx.working.append(draft)
            if self.seed is not None:
                self.seed += 1
            (chosen,) = self.read(logits(self.ctx.committed + self.ctx.working), sampler, index)
            more.append(chosen)
        self.matchers = kept
        return more

    def read(self, row: list[float], sampler: Any, index: int) -> list[Any]:
        wit = MODULES["inference"]
        match type(sampler).__name__:
            case "Sampler_RawLogits":
                return [wit.SlotOutput_Logits(struct.pack(f"{VOCAB}f", *row))]
            case "Sampler_Entropy":
                return [wit.SlotOutput_Entropy(sum(row))]
            case "Sampler_Embedding":
                return [wit.SlotOutput_Embedding(struct.pack("2f", row[0], row[1]))]
            case "Sampler_Logprob":
                return [wit.SlotOutput_Logprobs([row[sampler.value]])]
            case "Sampler_Logprobs":
                return [wit.SlotOutput_Logprobs([row[t] for t in sampler.value])]
            case "Sampler_Dist":
                best = sorted(range(VOCAB), key=lambda t: -row[t])[: sampler.value[1] or VOCAB]
                return [wit.SlotOutput_Distribution((best, [row[t] for t in best]))]
        allowed = allowed_by(self.mask)
        for matcher in self.matchers:
            allowed = [token for token in allowed if token in matcher.next()]
        draws = sampler.value[1] if type(sampler).__name__ == "Sampler_Multinomial" else 1
        tokens = [max(allowed, key=lambda t: row[t])] * draws
        if sampler.value[0] > 0:
            source = random.Random(self.seed)
            tokens = [source.choice(allowed) for _ in range(draws)]
        return [wit.SlotOutput_Token(token) for token in tokens]


def begin(ctx: Context, tokens: list[int], mask: list[int], seed: Any, sampler: Any) -> Future:
    state.calls["begin"] += 1
    ctx.last_step = (mask, seed, sampler)
    with ForwardPass(ctx.parent) as short:
        short.context(ctx)
        short.tokens, short.mask, short.seed = list(tokens), mask, seed
        short.sampler([len(tokens) - 1], sampler)
        future = short.execute()
        future.parent, short.children = None, 0  # no caller sees this pass
        return future


def repeat(ctx: Context, token: int) -> int:
    """Blocks the program: nothing else can run meanwhile."""
    state.calls["repeat"] += 1
    mask, seed, sampler = ctx.last_step
    assert not mask
    seed = None if seed is None else seed + 1
    with begin(ctx, [token], mask, seed, sampler) as future:
        state.now += PASS_NS
        output = future.get()
        ctx.problem = future.failure
        return output.slots[0].value if output.slots else 0xFFFF_FFFF


class Chain(Resource):
    """Delivers its tokens: one, then eight at a time, each time after the duration of a pass."""

    def __init__(self, first: ForwardPass, limit: int, stops: list[int]) -> None:
        super().__init__()
        assert limit > 0 and len(first.samplers) == 1
        self.ctx = first.ctx
        self.failure = state.fail_next
        self.tokens: list[int] = []
        self.previous: int | None = None  # the last token that was taken
        self.ended: Any = None
        self.due = state.now + PASS_NS
        ctx = SimpleNamespace(
            committed=[], working=self.ctx.committed + self.ctx.working, pages=10**9
        )
        matchers = [matcher.copy() for matcher in first.matchers]
        self.matchers = first.matchers
        while not self.ended and self.failure is None:
            following = ForwardPass(first.parent)
            following.ctx, following.mask, following.matchers = ctx, first.mask, matchers
            if first.seed is not None:
                following.seed = first.seed + len(self.tokens)
            following.tokens = [self.tokens[-1]] if self.tokens else first.tokens
            following.samplers = [([len(following.tokens) - 1], first.samplers[0][1])]
            with following, following.execute() as future:
                token = future.take().slots[0].value
            self.tokens.append(token)
            ending = MODULES["chains"].Ending
            if token not in stops:
                for matcher in matchers:
                    matcher.accept_tokens([token])
            if token in stops:
                self.ended = ending.STOP
            elif any(matcher.is_terminated() for matcher in matchers):
                self.ended = ending.COMPLETE
            elif len(self.tokens) >= limit:
                self.ended = ending.LIMIT
        state.fail_next = None
        self.ctx.working += first.tokens
        assert len(self.ctx.working) <= self.ctx.pages * PAGE, "tokens need pages"

    def pollable(self) -> Pollable:
        return Pollable(lambda: self.due, self)

    def take(self) -> Any:
        self.use()
        state.calls["take"] += 1
        progress = MODULES["chains"].Progress
        if self.due > state.now:
            return progress([], None)
        if self.failure is not None:
            raise Err(self.failure)
        count = 8 if self.previous is not None else 1
        taken, self.tokens = self.tokens[:count], self.tokens[count:]
        self.due = state.now + min(8, len(self.tokens)) * PASS_NS
        for token in taken:
            ctx = self.ctx
            if self.previous is not None:
                ctx.working.append(self.previous)
                ctx.pages = max(ctx.pages, -(-len(ctx.working) // PAGE))
            ctx.commit_working_pages(len(ctx.working) // PAGE)
            self.previous = token
            for matcher in self.matchers:
                if token != IM_END:
                    matcher.accept_tokens([token])
        return progress(taken, None if self.tokens else self.ended)


def run_chain(first: ForwardPass, limit: int, stops: list[int]) -> Chain:
    if state.chains_off:
        raise Err("chains are switched off")
    return Chain(first, limit, stops)


def allowed_by(mask: list[int]) -> list[int]:
    if not mask:
        return list(range(VOCAB))
    found, at = [], 0
    for index, run in enumerate(mask):
        if index & 1:
            found += range(at, at + run)
        at += run
    return found
