"""Extracts an order from a text. The answer always fits the type."""

import enum
from dataclasses import dataclass

from inferlet import Context, Model, Sampler, runtime


class Size(enum.StrEnum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Order:
    pies: int
    size: Size
    warm: bool


async def main(input: dict) -> Order:
    model = Model.load(runtime.models()[0])
    with Context(model) as ctx:
        ctx.system("Answer with the order as JSON.").user(input["text"])
        seed = input.get("seed")
        sampler = Sampler.argmax() if seed is None else Sampler.top_p(1.0, 0.95)
        generator = ctx.generate(sampler, seed=seed, max_tokens=input.get("max_tokens", 400))
        return await generator.collect_json(schema=Order)
