#!/usr/bin/env python3
"""Writes quants.bin and quants.json: blocks of every stored type, and the floats they represent.

    pip install gguf==0.19.0
    python tests/golden/make_quants.py

The `gguf` package is the format's own reference in Python; src/model/dequantize_test.cc compares
our dequantisation with what is written here, bit for bit. quants.json also lists the block sizes
of all the types that the package knows.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize

SEED = 20250131
NUMBERS = 1024  # per type: half are random weights, half are random bits
# The places of the f16 scales in a block. Random bits there would give infinities and NaNs.
SCALES = {
    "F32": (),
    "F16": (),
    "BF16": (),
    "Q8_0": (0,),
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "MXFP4": (),
}


def random_blocks(name: str, count: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Blocks of random bits with finite scales, among them zero and a subnormal."""
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in SCALES[name]:
        scales = rng.normal(0, 0.05, count).astype(np.float16)
        scales[:2] = (0, 3e-7)[: min(2, count)]
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(count, 2)
    if name in ("F32", "F16", "BF16"):  # platforms differ in the bits of infinities and NaNs
        top = size - 1
        blocks[:, top] = np.where(blocks[:, top] & 0x78 == 0x78, 0x38, blocks[:, top])
    if name == "MXFP4":
        blocks[:, 0] = rng.integers(100, 140, count, dtype=np.uint8)
        blocks[:4, 0] = (0, 1, 2, 3)
    return blocks


def weight_blocks(kind: GGMLQuantizationType, count: int, rng: np.random.Generator) -> np.ndarray:
    """Blocks made by the package's own quantiser. There are none for types that it only reads."""
    elements, size = GGML_QUANT_SIZES[kind]
    weights = rng.normal(0, 0.5, (count, elements)).astype(np.float32)
    try:
        stored = quantize(weights, kind)
    except NotImplementedError:
        return np.empty((0, size), dtype=np.uint8)
    return np.ascontiguousarray(stored).view(np.uint8).reshape(-1, size)


def main() -> None:
    rng = np.random.default_rng(SEED)
    data = bytearray()
    cases = []
    for name in SCALES:
        kind = GGMLQuantizationType[name]
        elements, size = GGML_QUANT_SIZES[kind]
        half = NUMBERS // 2 // elements
        made = weight_blocks(kind, half, rng)
        blocks = np.concatenate([made, random_blocks(name, 2 * half - len(made), size, rng)])
        typed = {"F32": np.float32, "F16": np.float16}.get(name, np.uint8)
        with np.errstate(all="ignore"):
            values = dequantize(blocks.reshape(-1).view(typed), kind).astype("<f4").reshape(-1)
        assert len(values) == len(blocks) * elements
        assert np.isfinite(values).all(), name
        cases.append({"type": name, "blocks": len(blocks), "at": len(data)})
        data += blocks.tobytes() + values.tobytes()

    index = {
        "about": "made by make_quants.py; each case is its blocks, then their floats",
        "gguf": version("gguf"),
        "seed": SEED,
        "sizes": {
            kind.name: [kind.value, elements, size]
            for kind, (elements, size) in GGML_QUANT_SIZES.items()
        },
        "cases": cases,
    }
    folder = Path(__file__).resolve().parent
    (folder / "quants.bin").write_bytes(data)
    (folder / "quants.json").write_text(json.dumps(index, indent=1) + "\n")


if __name__ == "__main__":
    main()
