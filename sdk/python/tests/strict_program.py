"""A program as users write it. `make check-types` checks it in strict mode; no test runs it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from inferlet import (
    Adapter,
    Context,
    Entropy,
    Event,
    JsonSchema,
    Logprobs,
    Model,
    Sampler,
    messaging,
    runtime,
    session,
)
from inferlet.spec import Speculator


@dataclass
class City:
    name: str
    people: int


class Repeats(Speculator):
    def draft(self) -> tuple[list[int], list[int]]:
        return [1, 2], []

    def accept(self, tokens: list[int]) -> None:
        print(len(tokens))

    def rollback(self, n: int) -> None:
        print(n)

    def reset(self) -> None:
        print("reset")


async def main(input: dict[str, Any]) -> dict[str, Any]:
    model = Model.load(runtime.models()[0])
    tokens: list[int] = model.tokenizer().encode("hello")
    with Context(model) as ctx:
        ctx.system("Be brief.").user(str(input["prompt"])).append(tokens)
        text: str = await ctx.generate(
            Sampler.top_p(0.6, 0.95), max_tokens=8, speculator=Repeats(), seed=7
        ).collect_text()
        g = ctx.fork().generate(
            Sampler.argmax(), constrain=JsonSchema({"type": "object"}), max_tokens=8
        )
        handle = g.probe_each_step(0, Entropy())
        async for step in g:
            probe = step.probe(0, Logprobs([1, 2]))
            out = await step.execute()
            entropy: float | None = out.entropy(handle)
            logprobs: list[float] | None = out.logprobs(probe)
            session.send({"entropy": entropy, "logprobs": logprobs, "tokens": out.tokens})
        forward = ctx.forward()
        forward.input(tokens)
        sampled = forward.sample([len(tokens) - 1], Sampler.argmax())
        token: int | None = (await forward.execute()).token(sampled)
        adapter = Adapter.open(model, "mine")
        reply = asyncio.create_task(session.receive())
        await messaging.push_wait("topic", await reply)
        return {"text": text, "token": token, "tuned": adapter is not None}


def shown(event: Event.Text | Event.Done) -> str:
    match event:
        case Event.Text(text):
            return text
        case Event.Done(text):
            return text
