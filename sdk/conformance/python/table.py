"""The table of cases, and what several of them share."""

import array
from collections.abc import Awaitable, Callable
from typing import Any

from inferlet import Context, Model, Sampler, runtime

GREEDY = Sampler.argmax()
CASES: dict[str, Callable[..., Awaitable[Any]]] = {}


def case(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Enters a function into the table under its name (less a last `_`). Its arguments are the
    case's input."""
    CASES[function.__name__.rstrip("_")] = function
    return function


def load_model() -> Model:
    return Model.load(runtime.models()[0])


def encode(model: Model, text: str) -> list[int]:
    return model.tokenizer().encode(text)


async def context_with(model: Model, text: str) -> Context:
    """A context that holds (computed) the given text."""
    ctx = Context(model).append(encode(model, text))
    await ctx.flush()
    return ctx


def floats(data: bytes) -> list[float]:
    return array.array("f", data).tolist()


def argmax(data: bytes) -> int:
    values = floats(data)
    return values.index(max(values))
