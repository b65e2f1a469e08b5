"""Checks of arguments: a value of a wrong type is a TypeError that names the argument, one outside
its range a ValueError. The bindings would trap, or convert without an error."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, cast

from . import _json

_U32 = 1 << 32
_S64 = 1 << 63


def text(name: str, value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {_kind(value)}")
    return _unicode(name, value)


def _unicode(name: str, value: str) -> str:
    """A text that UTF-8 can write, as the engine takes it."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{name} has half a character (a surrogate) at {error.start}, which is not text; "
                "text.encode(errors='replace').decode() replaces it"
            ) from None
    return value


def json_text(name: str, value: object) -> str:
    """A text as it is, anything else as JSON."""
    if isinstance(value, str):
        return _unicode(name, value)
    try:
        made = _json.dumps(value)
    except (TypeError, ValueError) as error:
        kind = type(error)
        raise kind(f"{name} must be a str or a value with a JSON form: {error}") from None
    return _unicode(name, made)


def schema(name: str, value: object) -> str:
    """The text of a JSON Schema, from its text or from a dict."""
    if not isinstance(value, (str, dict)):
        raise TypeError(f"{name} must be a JSON Schema (its text or a dict), not {_kind(value)}")
    return json_text(name, cast("Any", value))


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


def scalar(name: str, value: object) -> str | None:
    """A text, a boolean or a number, as JSON; or None."""
    if value is None:
        return None
    if not isinstance(value, (str, bool, int, float)):
        raise TypeError(f"{name} must be a str, bool, number or None, not {_kind(value)}")
    return json.dumps(value)


def temperature(value: object) -> float:
    """The temperature of a sampler or probe."""
    given = number("temperature", value)
    if not 0 <= given < math.inf:
        raise ValueError(f"temperature must be 0 or more, not {given}")
    return given


def share(name: str, value: object) -> float:
    """A number between 0 and 1."""
    given = number(name, value)
    if not 0 <= given <= 1:
        raise ValueError(f"{name} must be between 0 and 1, not {given}")
    return given


def items(name: str, values: object, of: str) -> list[Any]:
    """The items of a list or another iterable, `of` which it is made."""
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes, dict)):
        return list(cast("Iterable[Any]", values))
    raise TypeError(f"{name} must be a list of {of}, not {_kind(cast('object', values))}")


def with_methods(name: str, value: object, methods: Iterable[str], what: str) -> None:
    """An object of the program that has these methods."""
    for method in methods:
        if not callable(getattr(value, method, None)):
            raise TypeError(f"{name} must be {what}, which has {method}(), not {_kind(value)}")


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
