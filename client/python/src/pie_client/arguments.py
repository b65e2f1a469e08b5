"""Turns the arguments after `--` into an inferlet's input, by the same rules as `pie run`."""

from __future__ import annotations

import re
from typing import Any


def to_input(words: list[str]) -> dict[str, Any]:
    """Turns `--max-tokens 8 --fast hello` into {"max_tokens": 8, "fast": "hello"}."""
    input: dict[str, Any] = {}
    positional: list[Any] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not _is_flag(word):
            positional.append(_value(word))
            continue
        name, equals, value = word[2:].partition("=")
        key = name.replace("-", "_")
        if equals:
            input[key] = _value(value)
        elif at < len(words) and not _is_flag(words[at]):
            input[key] = _value(words[at])
            at += 1
        else:
            input[key] = True
    if positional:
        input["_positional"] = positional
    return input


def _is_flag(word: str) -> bool:
    return len(word) > 2 and word.startswith("--")


def _value(word: str) -> Any:
    if word in ("true", "false"):
        return word == "true"
    if len(word) >= 64:
        return word
    if re.fullmatch(r"[+-]?\d+", word):
        number = int(word)
        return number if -(2**63) <= number < 2**64 else float(word)
    if re.fullmatch(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?", word):
        return float(word)
    return word
