"""The modules that componentize-py generates, as the fake engine provides them."""

from __future__ import annotations

from dataclasses import make_dataclass
from types import ModuleType
from typing import Any


def variants(prefix: str, *cases: str) -> dict[str, type]:
    """`Case` has no value, `Case!` has one."""
    made = {}
    for case in cases:
        name = f"{prefix}_{case.rstrip('!')}"
        made[name] = make_dataclass(name, ["value"] if case.endswith("!") else [])
    return made


MODULES: dict[str, ModuleType] = {}


def module(name: str, **content: Any) -> None:
    MODULES[name] = ModuleType(f"wit_world.imports.{name}")
    vars(MODULES[name]).update(content)
