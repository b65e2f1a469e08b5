"""Writes a GGUF file with the vocabulary of a tokenizer.json and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_I32, _F32, _BOOL, _STRING, _ARRAY = 5, 6, 7, 8, 9
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def write(path: Path, values: dict[str, Any]) -> Path:
    """Encodes keys of GGUF 3: strings, booleans, and lists of strings, integers or floats."""
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)))
    for key, value in values.items():
        out += _text(key)
        if isinstance(value, str):
            out += struct.pack("<I", _STRING) + _text(value)
        elif isinstance(value, bool):
            out += struct.pack("<IB", _BOOL, value)
        else:
            out += struct.pack("<I", _ARRAY) + _array(value)
    path.write_bytes(out)
    return path


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _array(items: Sequence[Any]) -> bytes:
    kind = {str: _STRING, int: _I32, float: _F32}[type(items[0])]
    head = struct.pack("<IQ", kind, len(items))
    if kind == _STRING:
        return head + b"".join(_text(item) for item in items)
    return head + struct.pack(f"<{len(items)}{'i' if kind == _I32 else 'f'}", *items)


def tables(tokenizer: dict[str, Any]) -> tuple[list[str], list[int]]:
    """Tokens and their types, as llama.cpp's converter writes them."""
    tokens = {id_: token for token, id_ in tokenizer["model"]["vocab"].items()}
    types = dict.fromkeys(tokens, NORMAL)
    for token in tokens.values():
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            types[tokenizer["model"]["vocab"][token]] = BYTE
    for added in tokenizer["added_tokens"]:
        types[added["id"]] = CONTROL if added["special"] else USER_DEFINED
        # User-defined tokens are written as they appear in texts.
        content = added["content"]
        tokens[added["id"]] = content if added["special"] else content.replace("▁", " ")
    size = max(tokens) + 1
    names = [tokens.get(i, f"[PAD{i}]") for i in range(size)]
    return names, [types.get(i, UNUSED) for i in range(size)]


def merges(tokenizer: dict[str, Any]) -> list[str]:
    all_merges = tokenizer["model"]["merges"]
    return [merge if isinstance(merge, str) else " ".join(merge) for merge in all_merges]
