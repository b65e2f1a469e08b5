"""A fake engine, so that the SDK's own logic can be tested without a real one.

`install()` registers it as the modules that componentize-py generates. Messages are in this file,
and the rest is in the files beside it.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import make_dataclass
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

from engine_chat import ChatDecoder, Model, ThoughtDecoder, Tokenizer, extend, set_option, turn
from engine_contexts import Context
from engine_grammar import Grammar, Matcher, forced_tokens, rollback
from engine_modules import MODULES, module, variants
from engine_passes import ForwardPass, begin, repeat, run_chain
from engine_resources import (
    IM_END,
    IM_START,
    QUEUE_LIMIT,
    Err,
    Future,
    Ok,
    Pollable,
    Resource,
    poll,
    reset,
    state,
)


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
