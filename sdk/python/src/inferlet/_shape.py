"""What `collect_json(schema=…)` takes: a schema for the engine, and a parser of the document.

A type of the language is described by a JSON Schema, and the document becomes a value of it. A
class with `model_json_schema` and `model_validate_json` (pydantic's models) describes itself.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from .constraint import AnyJson, JsonSchema

_Json = dict[str, Any]
_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


class Shape(NamedTuple):
    """A schema, and how its documents are read."""

    schema: Any
    parse: Callable[[str], Any]


def shape_of(given: Any) -> Shape:
    """The shape that the argument of `collect_json` stands for."""
    if given is None:
        return Shape(AnyJson(), json.loads)
    if isinstance(given, str):
        return Shape(JsonSchema(given), json.loads)
    if isinstance(given, dict):
        return Shape(JsonSchema(json.dumps(given)), json.loads)
    if hasattr(given, "model_json_schema") and hasattr(given, "model_validate_json"):
        return Shape(JsonSchema(json.dumps(given.model_json_schema())), given.model_validate_json)
    if hasattr(given, "build_constraint") or hasattr(given, "step"):
        return Shape(given, json.loads)
    described = json.dumps(_Describer().whole(given))

    def parse(text: str) -> Any:
        return _value(given, json.loads(text))

    return Shape(JsonSchema(described), parse)


class _Describer:
    """Types as JSON Schemas. Classes become definitions, so that they may contain themselves."""

    def __init__(self) -> None:
        self._definitions: _Json = {}

    def whole(self, kind: Any) -> _Json:
        schema = self.of(kind)
        return {**schema, "$defs": self._definitions} if self._definitions else schema

    def of(self, kind: Any) -> _Json:
        if kind is Any:
            return {}
        if kind in _NAMES:
            return {"type": _NAMES[kind]}
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            return self.of(arguments[0])
        if origin in (typing.Required, typing.NotRequired):
            return self.of(arguments[0])
        if origin is typing.Literal:
            return {"enum": list(arguments)}
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.of(argument) for argument in arguments]}
        if kind is list or origin is list:
            return {"type": "array", **({"items": self.of(arguments[0])} if arguments else {})}
        if origin is tuple:
            return self._tuple(arguments)
        if kind is dict or origin is dict:
            if arguments and arguments[0] is not str:
                raise TypeError(f"the keys of a JSON object are texts, not {arguments[0]}")
            values = {"additionalProperties": self.of(arguments[1])} if arguments else {}
            return {"type": "object", **values}
        if isinstance(kind, type):
            return self._class(kind)
        raise TypeError(f"{kind!r} cannot be described by a JSON Schema")

    def _tuple(self, arguments: tuple[Any, ...]) -> _Json:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": self.of(arguments[0])}
        count = len(arguments)
        items = [self.of(argument) for argument in arguments]
        return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}

    def _class(self, kind: type[Any]) -> _Json:
        if issubclass(kind, enum.Enum):
            return {"enum": [member.value for member in kind]}
        if not _has_fields(kind):
            raise TypeError(
                f"{kind.__name__} cannot be described by a JSON Schema: use a dataclass, a "
                f"TypedDict, an Enum or a type like list[int]"
            )
        if kind.__name__ not in self._definitions:
            self._definitions[kind.__name__] = {}  # it may contain itself
            self._definitions[kind.__name__] = {
                "type": "object",
                "properties": {name: self.of(of) for name, of in fields_of(kind).items()},
                "required": required_of(kind),
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{kind.__name__}"}


def _has_fields(kind: Any) -> bool:
    return inspect.isclass(kind) and (dataclasses.is_dataclass(kind) or typing.is_typeddict(kind))


def fields_of(kind: Any) -> dict[str, Any]:
    """The fields of a dataclass or TypedDict, and their types."""
    hints = typing.get_type_hints(kind)
    if dataclasses.is_dataclass(kind):
        return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}
    return hints


def required_of(kind: Any) -> list[str]:
    """The fields that every document has."""
    if not dataclasses.is_dataclass(kind):
        keys: frozenset[str] = kind.__required_keys__
        return sorted(keys)
    none = dataclasses.MISSING
    return [
        field.name
        for field in dataclasses.fields(kind)
        if field.init and field.default is none and field.default_factory is none
    ]


def _value(kind: Any, json_value: Any) -> Any:
    """The value of this type that a document of its schema stands for."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated or origin in (typing.Required, typing.NotRequired):
        return _value(arguments[0], json_value)
    if origin in (typing.Union, types.UnionType):
        fitting = next((of for of in arguments if _fits(of, json_value)), None)
        return json_value if fitting is None else _value(fitting, json_value)
    if origin is list:
        return [_value(arguments[0], item) for item in json_value]
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_value(arguments[0], item) for item in json_value)
        return tuple(_value(of, item) for of, item in zip(arguments, json_value, strict=True))
    if origin is dict:
        return {key: _value(arguments[1], item) for key, item in json_value.items()}
    if kind is float:
        return float(json_value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(json_value)
    if _has_fields(kind):
        fields = fields_of(kind)
        return kind(**{name: _value(fields[name], item) for name, item in json_value.items()})
    return json_value


def _fits(kind: Any, json_value: Any) -> bool:
    """Whether a member of a union describes the value, as far as its outermost layer tells."""
    origin = typing.get_origin(kind) or kind
    if kind is Any:
        return True
    if origin is typing.Literal:
        return json_value in typing.get_args(kind)
    if origin in (list, tuple):
        return isinstance(json_value, list)
    if origin is float:
        return isinstance(json_value, (int, float)) and not isinstance(json_value, bool)
    if origin in _NAMES:
        return type(json_value) is origin
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return any(member.value == json_value for member in origin)
    if _has_fields(origin):
        if not isinstance(json_value, dict):
            return False
        return set(required_of(origin)) <= json_value.keys() <= fields_of(origin).keys()
    return isinstance(json_value, dict) if origin is dict else False
