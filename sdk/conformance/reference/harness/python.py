"""Runs the rows of the reference in Python. `{rows}` are made from the *.rows files."""

import asyncio  # noqa: F401
import dataclasses  # noqa: F401
import inspect
import itertools
import json  # noqa: F401
import sys  # noqa: F401
from collections.abc import Callable
from typing import Any

from inferlet import *  # noqa: F403
from inferlet import Model, Sampler, runtime

GREEDY = Sampler.argmax()
SCHEMA = (
    '{"name": "f", "description": "d", "parameters": {"type": "object", "properties":'
    ' {"x": {"type": "integer"}}, "required": ["x"]}}'
)
_numbers = itertools.count()


class MySpec:
    def draft(self) -> tuple[list[int], list[int]]:
        return [], []

    def accept(self, tokens: list[int]) -> None:
        return None

    def rollback(self, n: int) -> None:
        return None

    def reset(self) -> None:
        return None


def check(condition: object) -> None:
    if not condition:
        raise AssertionError("the check does not hold")


def fails(action: Callable[[], Any], kind: type[Exception]) -> None:
    try:
        action()
    except kind:
        return
    raise AssertionError(f"no {kind.__name__} was raised")


def takes(function: Callable[..., Any], *names: str) -> None:
    """The first parameters have these names, and all others have defaults."""
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name in ("self", "cls"):
        del parameters[0]
    check([parameter.name for parameter in parameters[: len(names)]] == list(names))
    required = [
        parameter.name
        for parameter in parameters[len(names) :]
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if required:
        raise AssertionError(f"these parameters are required, too: {required}")


def default(function: Callable[..., Any], name: str) -> object:
    return inspect.signature(function).parameters[name].default


def fresh() -> str:
    return f"reference-python-{next(_numbers)}"


def letter(model: Model, text: str) -> int:
    (token,) = model.tokenizer().encode(text)
    return token


def every(model: Model) -> list[int]:
    """All tokens of the vocabulary."""
    return model.tokenizer().vocabs()[0]


def special(model: Model) -> int:
    """A special token that does not end a turn."""
    return min(set(model.tokenizer().special_tokens()[0]) - set(chat.stop_tokens(model)))  # noqa: F405


def holds(model: Model, tokens: list[int], letters: str) -> bool:
    """Whether the tokens are a text that consists of these letters alone."""
    return set(model.tokenizer().decode(tokens)) <= set(letters)


def allows(mask: list[int], token: int) -> bool:
    """Whether a mask allows the token. The mask is a list of runs; the first run is not allowed."""
    ends = list(itertools.accumulate(mask))
    return next((i % 2 == 1 for i, end in enumerate(ends) if token < end), False)


# {rows}


async def main(input: dict) -> dict:
    if "fail" in input:
        raise ValueError(input["fail"])
    model = Model.load(runtime.models()[0])
    errors = {}
    for name, function in list(globals().items()):
        if not name.startswith("row_"):
            continue
        if "real" in input:
            function = globals().get(name.replace("row_", "real_"), function)
        try:
            await function(model)
        except Exception as error:
            errors[name[4:]] = f"{type(error).__name__}: {error}"
    return {"errors": errors}
