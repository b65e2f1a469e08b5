"""The engine's configuration under which tests run.

$PIE_TEST_CONFIGURATION names a file of tests/configurations/, without its ending. Without it, tests
run under the engine's defaults. Fixtures that start an engine write the configuration into its home
with `write`. What a test configures itself takes precedence.
"""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "configurations"
NAME = os.environ.get("PIE_TEST_CONFIGURATION", "")

_Table = dict[str, Any]


def write(home: Path, own: str = "") -> None:
    """Writes home/config.toml: the configuration of this run, with a test's `own` TOML over it."""
    home.mkdir(parents=True, exist_ok=True)
    if text := merged(_given(), own):
        (home / "config.toml").write_text(text)


def merged(given: str, own: str) -> str:
    """One TOML text of two. Tables are merged, [[model]] by position; other values are `own`'s."""
    if not given or not own:
        return given or own
    return dump(_merge(tomllib.loads(given), tomllib.loads(own)))


def option(name: str, default: Any) -> Any:
    """A value of [model.driver.options] in this run."""
    model = tomllib.loads(_given()).get("model", [{}])[0]
    return model.get("driver", {}).get("options", {}).get(name, default)


def page_tokens() -> int:
    """Tokens per KV page in this run."""
    return option("kv_page_size", 16)


def _given() -> str:
    if not NAME:
        return ""
    path = FOLDER / f"{NAME}.toml"
    assert path.is_file(), f"$PIE_TEST_CONFIGURATION is {NAME!r}, but there is no {path}"
    return path.read_text()


def _merge(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        both = {key: _merge(below[key], above[key]) for key in below.keys() & above.keys()}
        return {**below, **above, **both}
    if _is_tables(below) and _is_tables(above):
        longest = max(len(below), len(above))
        rows = [rows + [{}] * (longest - len(rows)) for rows in (below, above)]
        return [_merge(*pair) for pair in zip(*rows, strict=True)]
    return above


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def dump(table: _Table, path: str = "") -> str:
    """TOML for tables of plain values, tables, and arrays of tables."""
    plain, below = "", ""
    for key, value in table.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            below += f"[{name}]\n{dump(value, name)}"
        elif _is_tables(value):
            below += "".join(f"[[{name}]]\n{dump(row, name)}" for row in value)
        else:
            plain += f"{key} = {json.dumps(value, ensure_ascii=False)}\n"
    return plain + below
