"""Writes random LoRA adapters as GGUF files, the form in which llama.cpp reads them."""

from __future__ import annotations

import random
import struct
from pathlib import Path

ALIGNMENT = 32
TEXT, FLOAT, F16 = 8, 6, 1  # types of values, and of tensors


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def write(path: Path, architecture: str, rank: int, matrices: dict[str, tuple[int, int]]) -> None:
    """`matrices`: name of the model's tensor → (in, out). A and B are of 16-bit numbers."""
    numbers = random.Random(1)
    pool = struct.pack("<4096e", *(numbers.uniform(-0.02, 0.02) for _ in range(4096)))
    tensors = {}
    for name, (fan_in, fan_out) in matrices.items():
        tensors[f"{name}.lora_a"] = (fan_in, rank)
        tensors[f"{name}.lora_b"] = (rank, fan_out)
    texts = {"general.type": "adapter", "general.architecture": architecture}
    texts["adapter.type"] = "lora"
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(texts) + 1)
    for key, value in texts.items():
        head += _text(key) + struct.pack("<I", TEXT) + _text(value)
    head += _text("adapter.lora.alpha") + struct.pack("<If", FLOAT, rank)
    data = b""
    for name, (columns, rows) in tensors.items():
        head += _text(name) + struct.pack("<IQQIQ", 2, columns, rows, F16, len(data))
        size = columns * rows * 2
        data += (pool * (size // len(pool) + 1))[:size]
        data += b"\0" * (-len(data) % ALIGNMENT)
    path.write_bytes(head + b"\0" * (-len(head) % ALIGNMENT) + data)
