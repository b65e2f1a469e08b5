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
        sampler = Sampler.top_p(input.get("temperature", 0), 0.95, seed=input.get("seed"))
        generator = ctx.generate(sampler, max_tokens=input.get("max_tokens", 400))
        return await generator.collect_json(schema=Order)
