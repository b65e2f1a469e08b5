"""A make-believe engine, so that the SDK's own logic can be tested without one.

`install()` registers it as the modules that componentize-py generates. The model is a hash.
"""

from __future__ import annotations

import random
import struct
import sys
from collections import deque
from dataclasses import make_dataclass
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

from engine_grammar import Grammar, Matcher, forced_tokens, rollback
from engine_resources import (
    IM_END,
    IM_START,
    PAGE,
    PASS_NS,
    QUEUE_LIMIT,
    STOP_AFTER,
    VOCAB,
    Err,
    Future,
    Ok,
    Pollable,
    Resource,
    poll,
    reset,
    state,
)

# Model and chat.


class Tokenizer(Resource):
    def special_tokens(self) -> tuple[list[int], list[bytes]]:
        return [IM_START, IM_END], [b"<|im_start|>", b"<|im_end|>"]

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: list[int]) -> str:
        if any(token >= VOCAB for token in tokens):
            raise Err(f"token {max(tokens)} is outside the vocabulary of {VOCAB}")
        names = dict(zip(*self.special_tokens(), strict=True))
        pieces = [names.get(token) or bytes([token]) for token in tokens]
        return b"".join(pieces).decode(errors="replace")


class Model(Resource):
    @classmethod
    def load(cls, name: str) -> Model:
        if name != "dummy":
            raise Err(f"no model {name}; there is dummy")
        return cls()

    def tokenizer(self) -> Tokenizer:
        return Tokenizer(self)


def turn(role: str) -> Any:
    def tokens(_model: Model, message: str) -> list[int]:
        return [IM_START, *f"{role}\n{message}".encode(), IM_END]

    return tokens


def extend(model: Model, before: list[Any], turns: list[Any]) -> list[int]:
    """A template that writes what it was told: the kinds before, then each turn."""
    state.calls["extend"] += 1
    state.before = [kind.name for kind in before]
    state.turns = list(turns)
    tokens: list[int] = []
    for given in turns:
        role = given.kind.name.lower()
        if given.text == "refused" and len(turns) > 1:
            raise Err("these turns do not go together")
        tokens += [IM_START, 97] if role == "cue" else turn(role)(model, given.text)
    return tokens


def set_option(model: Model, name: str, value: str | None) -> None:
    if name == "messages":
        raise Err("the option 'messages' is a variable that the engine sets itself")
    state.options[name] = value


class ChatDecoder(Resource):
    def __init__(self) -> None:
        super().__init__()
        self.text = b""
        self.shown = 0

    def feed(self, tokens: list[int]) -> Any:
        for token in tokens:
            if token == IM_END:
                return MODULES["chat"].Event_Done(self.text.decode(errors="ignore"))
            if token >= 256:
                return MODULES["chat"].Event_Interrupt(token)
            self.text += bytes([token])
        text = self.text.decode(errors="ignore")
        delta, self.shown = text[self.shown :], len(text)
        return MODULES["chat"].Event_Delta(delta)

    def reset(self) -> None:
        self.text, self.shown = b"", 0


# Contexts and passes.


class Context(Resource):
    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.committed: list[int] = []
        self.working: list[int] = []
        self.pages = 0

    @classmethod
    def create(cls, model: Model) -> Context:
        return cls(model)

    @classmethod
    def open(cls, model: Model, name: str) -> Context:
        if name not in state.snapshots:
            raise Err(f"no snapshot is named '{name}'")
        context = cls(model)
        context.committed, context.working, context.pages = state.snapshots[name]
        context.working = context.working.copy()
        return context

    @classmethod
    def take(cls, model: Model, name: str) -> Context:
        context = cls.open(model, name)
        del state.snapshots[name]
        return context

    @classmethod
    def delete(cls, model: Model, name: str) -> None:
        if state.snapshots.pop(name, None) is None:
            raise Err(f"no snapshot is named '{name}'")

    def fork(self) -> Context:
        self.save("fork")
        return Context.take(self.parent, "fork")

    def save(self, name: str) -> None:
        self.use()
        state.snapshots[name] = (self.committed.copy(), self.working.copy(), self.pages)

    def snapshot(self) -> str:
        self.save("auto")
        return "auto"

    def destroy(self) -> None:
        self.use()

    def tokens_per_page(self) -> int:
        return PAGE

    def committed_page_count(self) -> int:
        return len(self.committed) // PAGE

    def working_page_count(self) -> int:
        return self.pages

    def working_page_token_count(self) -> int:
        return len(self.working)

    def reserve_working_pages(self, n: int) -> None:
        self.pages += n

    def commit_working_pages(self, n: int) -> None:
        assert len(self.working) >= n * PAGE, "only full pages can be committed"
        self.committed += self.working[: n * PAGE]
        del self.working[: n * PAGE]
        self.pages -= n

    def truncate_working_page_tokens(self, n: int) -> None:
        assert 0 < n <= len(self.working), f"cannot truncate {n} of {len(self.working)}"
        del self.working[-n:]

    def release_pages(self, n: int) -> None:
        if n > self.pages:
            raise Err(f"cannot release {n} of {self.pages} working pages")
        self.pages -= n

    def truncate(self, n: int) -> None:
        """Goes back into committed pages, too."""
        left = (self.committed + self.working)[: len(self.committed) + len(self.working) - n]
        full = min(len(self.committed), len(left)) // PAGE
        self.pages += len(self.committed) // PAGE - full
        self.committed, self.working = left[: full * PAGE], left[full * PAGE :]

    def suspend(self) -> None:
        self.use()


class ThoughtDecoder(Resource):
    """Thoughts stand between <think> and </think>. A batch is all or nothing."""

    def feed(self, tokens: list[int]) -> Any:
        wit, text = MODULES["reasoning"], bytes(tokens)
        if state.begins_thinking and not text.startswith(b"<think>"):
            text = b"<think>" + text
        if not text.startswith(b"<think>"):
            return wit.Event_Delta("")
        return wit.Event_Complete("a") if text.endswith(b"</think>") else wit.Event_Start()


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
        """The tokens after the chosen one, as long as the drafts are right."""
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
        future.parent, short.children = None, 0  # nobody sees the pass
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
    """Gives its tokens one, then eight at a time, each after a pass's time."""

    def __init__(self, first: ForwardPass, limit: int, stops: list[int]) -> None:
        super().__init__()
        assert limit > 0 and len(first.samplers) == 1
        self.ctx = first.ctx
        self.failure = state.fail_next
        self.tokens: list[int] = []
        self.previous: int | None = None  # the last one taken
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


# Messages.


def queue_future(queue: deque[Any]) -> Future:
    def due() -> int | None:
        return state.now if queue or (queue is state.inbox and state.client_gone) else None

    return Future(due, lambda: queue.popleft() if queue else None)


class Subscription(Resource):
    def __init__(self, topic: str) -> None:
        super().__init__()
        self.waiting: deque[str] = deque()
        self.open = True
        state.subscriptions[topic].append(self)

    def pollable(self) -> Pollable:
        return Pollable(lambda: state.now if self.waiting or not self.open else None, self)

    def get(self) -> str | None:
        return self.waiting.popleft() if self.waiting else None

    def unsubscribe(self) -> None:
        self.open = False


def push(topic: str, message: str) -> None:
    if len(state.queues[topic]) == QUEUE_LIMIT:
        raise Err(f"queue '{topic}' is full")
    state.queues[topic].append(message)


def once(ctx: Context, value: float) -> None:
    if not value >= 0:
        raise Err(f"a bid is at least 0, not {value}")
    state.bids.append(value)


def broadcast(topic: str, message: str) -> None:
    for subscription in state.subscriptions[topic]:
        subscription.waiting.append(message)


def unavailable(*_: Any) -> Any:
    raise Err("not available here")


def left_behind() -> list[str]:
    """Resources that should have been dropped by now; models live as long as the program."""
    lasting = {"Model", "Tokenizer", "Subscription"}
    return sorted(kind for kind, count in state.live.items() if count and kind not in lasting)


# The generated modules.


def variants(prefix: str, *cases: str) -> dict[str, type]:
    """`Case` without a value, `Case!` with one."""
    made = {}
    for case in cases:
        name = f"{prefix}_{case.rstrip('!')}"
        made[name] = make_dataclass(name, ["value"] if case.endswith("!") else [])
    return made


MODULES: dict[str, ModuleType] = {}


def module(name: str, **content: Any) -> None:
    MODULES[name] = ModuleType(f"wit_world.imports.{name}")
    vars(MODULES[name]).update(content)


def install() -> None:
    reset()
    module("poll", Pollable=Pollable, poll=poll)
    module(
        "monotonic_clock",
        now=lambda: state.now,
        subscribe_instant=lambda when: Pollable(lambda: when),
    )
    module("runtime", models=lambda: ["dummy"], version=lambda: "0", launch=unavailable)
    module("model", Model=Model, Tokenizer=Tokenizer)
    module("context", Context=Context)
    module(
        "inference",
        ForwardPass=ForwardPass,
        Output=make_dataclass("Output", ["slots", "spec_tokens", "spec_positions"]),
        Grammar=Grammar,
        **variants("Sampler", "Multinomial!", "TopK!", "TopP!", "MinP!", "TopKTopP!", "Embedding"),
        **variants("Sampler", "Dist!", "RawLogits", "Logprob!", "Logprobs!", "Entropy"),
        **variants("SlotOutput", "Token!", "Distribution!", "Logits!", "Logprobs!", "Entropy!"),
        **variants("SlotOutput", "Embedding!"),
    )
    module("sampling", seed=lambda raw, seed: setattr(raw, "seed", seed))
    module("steps", begin=begin, repeat=repeat, problem=lambda ctx: ctx.problem)
    module(
        "chains",
        run=run_chain,
        Ending=Enum("Ending", "STOP LIMIT CANCELLED COMPLETE", start=0),
        Progress=make_dataclass("Progress", ["tokens", "ended"]),
    )
    module(
        "constraints",
        constrain=lambda first, matcher: first.matchers.append(matcher),
        fork=Matcher.copy,
        rollback=rollback,
        forced_tokens=forced_tokens,
    )
    module("outcome", failure=lambda future: future.failure)
    module("adapter", Adapter=SimpleNamespace(create=unavailable))
    module("adapters")
    module("broadcasts", dropped=lambda subscription: 0)
    module("caching", cached_tokens=lambda ctx: len(ctx.committed))
    module("templates", set_option=set_option)
    module(
        "scheduling",
        price=lambda: 1.0,
        rent=lambda ctx: 0.0,
        latency=lambda ctx: 0.001,
        dividend=lambda model: 0.0,
        balance=lambda model: 64.0,
    )
    module(
        "fallible",
        push=push,
        pull=lambda topic: queue_future(state.queues[topic]),
        broadcast=broadcast,
        subscribe=Subscription,
        send=lambda message: state.sent.append(message),
        send_file=lambda data: state.sent.append(data),
        encode=lambda tokenizer, text: tokenizer.encode(text),
        truncate_working_page_tokens=Context.truncate,
        release_working_pages=Context.release_pages,
        json_grammar=unavailable,
        create_matcher=Matcher,
        create_tool_decoder=unavailable,
        create_tool_grammar=unavailable,
        create_tool_matcher=unavailable,
    )
    module(
        "bidding",
        expect=lambda ctx, steps, variation: state.expected.append((steps, variation)),
        once=once,
        idle=lambda ctx, idle: state.bids.append("idle" if idle else "as before"),
    )
    module(
        "session",
        receive=lambda: queue_future(state.inbox),
        receive_file=lambda: queue_future(state.inbox),
    )
    module(
        "chat",
        system=turn("system"),
        user=turn("user"),
        assistant=turn("assistant"),
        cue=lambda model: [IM_START, 97],
        seal=lambda model: [IM_END],
        stop_tokens=lambda model: [IM_END],
        create_decoder=lambda model: ChatDecoder(),
        **variants("Event", "Delta!", "Interrupt!", "Done!"),
    )
    module(
        "reasoning",
        create_decoder=lambda model: ThoughtDecoder(),
        **variants("Event", "Start", "Delta!", "Complete!"),
    )
    module("tool_use", **variants("Event", "Start", "Call!"))
    module(
        "turns",
        extend=extend,
        Kind=Enum("Kind", "SYSTEM USER ASSISTANT TOOLS ANSWER CUE", start=0),
        Turn=make_dataclass("Turn", ["kind", "text", "name", "tools"]),
    )
    marks = make_dataclass("Format", ["open", "close", "close_token", "begins_inside", "rules"])
    rules = "thoughts: from the engine\n"
    module(
        "thoughts",
        marks=lambda model: marks("<think>", "</think>", None, state.begins_thinking, rules),
    )
    module("calls", assembling=lambda decoder: False)
    module("client", available_servers=lambda: [], connect=unavailable)
    module("streams")
    module("outgoing_handler", handle=unavailable)
    module("wasi_http_types", Scheme_Http=object, Scheme_Https=object)
    module("zo", adapter_seed=lambda raw, seed: None)

    types = ModuleType("componentize_py_types")
    types.Err, types.Ok = Err, Ok
    world = ModuleType("wit_world")
    world.imports = ModuleType("wit_world.imports")
    vars(world.imports).update(MODULES)
    sys.modules |= {
        "componentize_py_types": types,
        "wit_world": world,
        "wit_world.imports": world.imports,
        **{made.__name__: made for made in MODULES.values()},
    }
