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


# {rows}


async def main(input: dict) -> dict:
    if "fail" in input:
        raise ValueError(input["fail"])
    model = Model.load(runtime.models()[0])
    errors = {}
    for name, function in list(globals().items()):
        if not name.startswith("row_"):
            continue
        try:
            await function(model)
        except Exception as error:
            errors[name[4:]] = f"{type(error).__name__}: {error}"
    return {"errors": errors}
