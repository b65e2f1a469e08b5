"""Checks of arguments: a value of a wrong type is a TypeError that names the argument, one outside
its range a ValueError. The bindings would trap, or convert in silence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

_U32 = 1 << 32
_S64 = 1 << 63


def text(name: str, value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {_kind(value)}")
    return value


def json_object(name: str, value: object) -> None:
    """A JSON object: a dict, or its text."""
    if not isinstance(value, (str, dict)):
        raise TypeError(f"{name} must be a dict or its JSON text, not {_kind(value)}")


def whole(name: str, value: object, least: int = 0) -> int:
    """A whole number of 32 bits."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, not {_kind(value)}")
    if not least <= value < _U32:
        raise ValueError(f"{name} must be between {least} and {_U32 - 1}, not {value}")
    return value


def seed(name: str, value: object) -> int:
    """A seed: a whole number, which may be negative."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, not {_kind(value)}")
    return value


def zo_seed(name: str, value: object) -> int:
    """A seed of Evolution Strategies: a whole number of 64 bits with a sign."""
    number_ = seed(name, value)
    if not -_S64 <= number_ < _S64:
        raise ValueError(f"{name} must be between {-_S64} and {_S64 - 1}, not {number_}")
    return number_


def number(name: str, value: object) -> float:
    """A number."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, not {_kind(value)}")
    return float(value)


def data(name: str, value: object) -> bytes:
    """Bytes."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{name} must be bytes, not {_kind(value)}")
    return bytes(cast("bytes | bytearray | memoryview[int]", value))


def tokens(name: str, values: Iterable[int]) -> list[int]:
    """Token ids, rows or positions: whole numbers of 32 bits."""
    if isinstance(values, str):
        raise TypeError(f"{name} must be whole numbers, not a str; tokenizer.encode gives them")
    try:
        ids = list(values)
    except TypeError:
        raise TypeError(f"{name} must be a list of whole numbers, not {_kind(values)}") from None
    for value in ids:
        if type(value) is not int or not 0 <= value < _U32:
            whole(f"each of {name}", value)
    return ids


def mask(name: str, runs: Iterable[int]) -> list[int]:
    """A BRLE mask. It may have thousands of runs and comes with every step, so that runs that are
    right are checked at little cost."""
    ids = cast("list[int]", runs) if type(runs) is list else tokens(name, runs)
    if ids and ({type(run) for run in ids} != {int} or min(ids) < 0 or max(ids) >= _U32):
        return tokens(name, ids)
    return ids


def instance(name: str, value: object, kind: type, made_by: str) -> None:
    """An object of the SDK."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(f"{name} must be {article} {kind.__name__} ({made_by}), not {_kind(value)}")


def _kind(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
