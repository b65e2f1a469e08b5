"""Values as JSON texts: what a program returns, sends, pushes, or gives to a tool."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, cast


def dumps(value: Any) -> str:
    """The JSON text of a value. A dataclass and a class like pydantic's models become an object, an
    enum its value, and a set an array. A number that JSON cannot write (NaN, infinity) becomes
    null, as in the other languages. Any other value without a JSON form is a TypeError."""
    try:
        return _dumps(value)
    except ValueError:  # such a number, or a value that contains itself
        return _dumps(_finite(value, ()))


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    """A value of the types that `json` knows."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return list(cast("Iterable[Any]", value))
    if callable(model_dump := getattr(value, "model_dump", None)):
        return model_dump()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _finite(value: Any, inside: tuple[int, ...]) -> Any:
    """The value with None in the place of numbers that JSON cannot write. `inside` names the values
    that contain it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    if id(value) in inside:
        raise ValueError("the value contains itself")
    inside = (*inside, id(value))
    if isinstance(value, Mapping):
        parts = cast("Mapping[Any, Any]", value)
        return {key: _finite(part, inside) for key, part in parts.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part, inside) for part in cast("Iterable[Any]", value)]
    return _finite(_plain(value), inside)
