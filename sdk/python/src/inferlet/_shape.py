"""What `collect_json(schema=…)` takes: a schema for the engine, and a parser of the document.

A type of the language is described by a JSON Schema, and the document becomes a value of it. A
class with `model_json_schema` and `model_validate_json` (pydantic's models) describes itself.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import json
import math
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from .constraint import AnyJson, JsonSchema
from .errors import PieError

_Json = dict[str, Any]
_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
# The types that a list of JSON stands for, and what is made of it.
_LISTS: dict[Any, Callable[[Any], Any]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
    collections.abc.Set: frozenset,
    collections.abc.MutableSet: set,
}
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_LOOKS_THROUGH = (
    typing.Annotated,
    typing.Required,
    typing.NotRequired,
    typing.Final,
    getattr(typing, "ReadOnly", None),
)


class Shape(NamedTuple):
    """A schema, and how its documents are read."""

    schema: Any
    parse: Callable[[str], Any]


def shape_of(given: Any) -> Shape:
    """The shape that the argument of `collect_json` stands for."""
    if given is None:
        return Shape(AnyJson(), loads)
    if isinstance(given, str):
        return Shape(JsonSchema(given), loads)
    if isinstance(given, dict):
        return Shape(JsonSchema(json.dumps(given)), loads)
    if _is_model(given):
        return Shape(JsonSchema(json.dumps(given.model_json_schema())), given.model_validate_json)
    if hasattr(given, "schema_json") and hasattr(given, "parse_raw"):  # pydantic before 2
        return Shape(JsonSchema(given.schema_json()), given.parse_raw)
    if hasattr(given, "json_schema") and hasattr(given, "validate_json"):  # its TypeAdapter
        return Shape(JsonSchema(json.dumps(given.json_schema())), given.validate_json)
    if hasattr(given, "build_constraint") or hasattr(given, "step"):
        return Shape(given, loads)
    described = json.dumps(_Describer().whole(given))

    def parse(text: str) -> Any:
        return _value(given, loads(text))

    return Shape(JsonSchema(described), parse)


def read(parse: Callable[[str], Any], text: str, tokens: int) -> Any:
    """Returns the value that `parse` makes of a document with this many tokens."""
    try:
        return parse(text)
    except (json.JSONDecodeError, RecursionError):
        why = _problem_with(text, tokens)
        if why is None:  # it is a problem of the parser
            raise
    raise PieError(why)


def _problem_with(text: str, tokens: int) -> str | None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"the JSON document is not complete after {tokens} tokens: {error} in {text}"
    except RecursionError:
        return f"the JSON document of {tokens} tokens is nested too deeply to be read"
    return None


def loads(text: str) -> Any:
    """The value of a document. A number that a float cannot hold is an error, not infinity."""
    return json.loads(text, parse_float=_float)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text} is greater than a float can hold")
    return value


def _is_model(kind: Any) -> bool:
    return hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate_json")


def _is_named_tuple(kind: Any) -> bool:
    return inspect.isclass(kind) and tuple in kind.__mro__ and hasattr(kind, "_fields")


def _is_enum(kind: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, enum.Enum)


def _parts_of(kind: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """The type behind aliases, `NewType` and marks like `Annotated`; its origin, or itself if it
    has none; and its arguments."""
    while True:
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin in _LOOKS_THROUGH and origin is not None:
            kind = arguments[0]
        elif isinstance(kind, typing.NewType):
            kind = cast("Any", kind).__supertype__
        elif type(kind).__name__ == "TypeAliasType":  # `type X = …`
            kind = kind.__value__
        else:
            return kind, kind if origin is None else origin, arguments


class _Describer:
    """Types as JSON Schemas. Classes become definitions, so that they may contain themselves."""

    def __init__(self) -> None:
        self._definitions: _Json = {}
        self._names: dict[Any, str] = {}

    def whole(self, kind: Any) -> _Json:
        schema = self.of(kind)
        return {**schema, "$defs": self._definitions} if self._definitions else schema

    def of(self, given: Any) -> _Json:
        kind, origin, arguments = _parts_of(given)
        if kind is Any:
            return {}
        if kind is None:
            return {"type": "null"}
        if kind in _NAMES:
            return {"type": _NAMES[kind]}
        if origin is typing.Literal:
            return {"enum": list(arguments)}
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.of(argument) for argument in arguments]}
        if origin in _LISTS:
            return {"type": "array", **({"items": self.of(arguments[0])} if arguments else {})}
        if origin is tuple:
            return self._tuple(kind, arguments)
        if origin in _DICTS:
            if arguments and _parts_of(arguments[0])[0] is not str:
                raise TypeError(f"the keys of a JSON object are texts, not {arguments[0]}")
            values = {"additionalProperties": self.of(arguments[1])} if arguments else {}
            return {"type": "object", **values}
        if isinstance(kind, type):
            return self._class(cast("type[Any]", kind))
        raise TypeError(f"{given!r} cannot be described by a JSON Schema")

    def _tuple(self, kind: Any, arguments: tuple[Any, ...]) -> _Json:
        if not hasattr(kind, "__args__"):  # it is `tuple` itself
            return {"type": "array"}
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": self.of(arguments[0])}
        return self._items(arguments, len(arguments))

    def _items(self, kinds: typing.Iterable[Any], least: int) -> _Json:
        items = [self.of(kind) for kind in kinds]
        return {"type": "array", "prefixItems": items, "minItems": least, "maxItems": len(items)}

    def _class(self, kind: type[Any]) -> _Json:
        if issubclass(kind, enum.Enum):
            return {"enum": [member.value for member in kind]}
        if _is_model(kind):
            return self._model(cast("Any", kind))
        if _is_named_tuple(kind):
            fields = typing.get_type_hints(kind)
            names: tuple[str, ...] = cast("Any", kind)._fields
            optional = len(cast("Any", kind)._field_defaults)
            return self._items((fields.get(name, Any) for name in names), len(names) - optional)
        if not _has_fields(kind):
            raise TypeError(
                f"{kind.__name__} cannot be described by a JSON Schema: use a dataclass, a "
                f"TypedDict, a NamedTuple, an Enum or a type like list[int]"
            )
        if kind not in self._names:
            name = self._name(kind, kind.__name__)  # before its fields: it may contain itself
            self._definitions[name] = {
                "type": "object",
                "properties": {name: self.of(of) for name, of in fields_of(kind).items()},
                "required": required_of(kind),
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{self._names[kind]}"}

    def _model(self, kind: Any) -> _Json:
        """A schema that the class writes itself, with its definitions among ours."""
        schema: _Json = kind.model_json_schema()
        definitions: _Json = schema.pop("$defs", {})
        places = {
            f"#/$defs/{name}": f"#/$defs/{self._name((kind, name), name)}" for name in definitions
        }
        for name, definition in definitions.items():
            self._definitions[self._names[kind, name]] = _moved(definition, places)
        return _moved(schema, places)

    def _name(self, key: Any, wanted: str) -> str:
        """The name of a definition: two classes may have the same name."""
        if key not in self._names:
            taken = set(self._names.values())
            others = (f"{wanted}{number}" for number in range(2, len(taken) + 3))
            name = next(name for name in (wanted, *others) if name not in taken)
            self._names[key] = name
        return self._names[key]


def _moved(schema: Any, places: dict[str, str]) -> Any:
    """A copy in which references lead to the new places of their targets."""
    if isinstance(schema, list):
        return [_moved(part, places) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    return {
        key: places.get(part, part) if key == "$ref" else _moved(part, places)
        for key, part in cast("_Json", schema).items()
    }


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


def _value(given: Any, json_value: Any) -> Any:
    """The value of this type that a document of its schema stands for."""
    kind, origin, arguments = _parts_of(given)
    if origin in (typing.Union, types.UnionType):
        fitting = next((of for of in arguments if _fits(of, json_value)), Any)
        return _value(fitting, json_value)
    if origin in _LISTS:
        items = (_value(arguments[0], item) for item in json_value) if arguments else json_value
        return _LISTS[origin](items)
    if origin is tuple:
        kinds = _kinds_of_items(arguments, len(json_value))
        return tuple(_value(of, item) for of, item in zip(kinds, json_value, strict=True))
    if origin in _DICTS and arguments:
        return {key: _value(arguments[1], item) for key, item in json_value.items()}
    if kind is float:
        return float(json_value)
    if _is_enum(kind):
        return kind(json_value)
    if _is_model(kind):
        return kind.model_validate(json_value)
    if _is_named_tuple(kind):
        fields = typing.get_type_hints(kind)
        names = kind._fields[: len(json_value)]
        return kind(
            *(_value(fields.get(n, Any), v) for n, v in zip(names, json_value, strict=True))
        )
    if _has_fields(kind):
        fields = fields_of(kind)
        return kind(**{name: _value(fields[name], item) for name, item in json_value.items()})
    return json_value


def _kinds_of_items(arguments: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """The types of the items of a tuple."""
    if not arguments:
        return (Any,) * count
    return (arguments[0],) * count if arguments[1:] == (Ellipsis,) else arguments


def _fits(given: Any, json_value: Any) -> bool:
    """Whether a member of a union describes the value."""
    kind, origin, arguments = _parts_of(given)
    if kind is Any:
        return True
    if origin is typing.Literal:
        return any(_is_same(json_value, argument) for argument in arguments)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(of, json_value) for of in arguments)
    if kind is None:
        return json_value is None
    if kind is float:
        return isinstance(json_value, (int, float)) and not isinstance(json_value, bool)
    if kind in _NAMES:
        return type(json_value) is kind
    if _is_enum(kind):
        return any(_is_same(member.value, json_value) for member in kind)
    if _is_model(kind):
        return _validates(kind, json_value)
    if isinstance(json_value, list):
        return _fits_list(kind, origin, arguments, cast("list[Any]", json_value))
    if not isinstance(json_value, dict):
        return False
    parts = cast("_Json", json_value)
    if origin in _DICTS:
        return not arguments or all(_fits(arguments[1], item) for item in parts.values())
    if not _has_fields(kind):
        return False
    fields = fields_of(kind)
    if not set(required_of(kind)) <= parts.keys() <= fields.keys():
        return False
    return all(_fits(fields[name], item) for name, item in parts.items())


def _fits_list(kind: Any, origin: Any, arguments: tuple[Any, ...], items: list[Any]) -> bool:
    if origin in _LISTS:
        return not arguments or all(_fits(arguments[0], item) for item in items)
    if origin is tuple:
        kinds = _kinds_of_items(arguments, len(items))
        return len(kinds) == len(items) and all(map(_fits, kinds, items))
    if not _is_named_tuple(kind):
        return False
    fields = typing.get_type_hints(kind)
    least = len(kind._fields) - len(kind._field_defaults)
    if not least <= len(items) <= len(kind._fields):
        return False
    return all(
        _fits(fields.get(name, Any), v) for name, v in zip(kind._fields, items, strict=False)
    )


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same in JSON, which tells True from 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _validates(kind: Any, json_value: Any) -> bool:
    try:
        kind.model_validate(json_value)
    except ValueError:  # pydantic's ValidationError is one
        return False
    return True
