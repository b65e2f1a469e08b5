"""Adapters that we write load in the peft package, and give there the logits they were made for.

The package is installed from the registry into a virtual environment, with PyTorch: this takes six
gigabytes of the cache, once. src/backend/cpu/golden_test.cc has the other direction: adapters that
peft wrote give its logits on our devices.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bakery.toolchain import cache_dir, lock

ROOT = Path(__file__).resolve().parents[2]
REWRITE = ROOT / "build" / "bin" / "pie-rewrite-adapter"
MODELS = ROOT / "tests" / "golden" / "models"
NEEDED_BYTES = 6 << 30
PACKAGES = ("torch==2.15.0", "transformers==5.22.2", "peft==0.21.2")
ADAPTERS = (
    "llama/adapter",
    "phi3/adapter",
    "llama/adapter-ends",
    "gemma3/adapter-ends",
    "qwen3moe/adapter-experts",
    "mixtral/adapter-experts",
    "gpt-oss/adapter-experts",
    "qwen3moe/adapter-modules",
    "mixtral/adapter-modules",
)


@pytest.fixture(scope="module")
def peft() -> Iterator[subprocess.Popen]:
    """peft_logits.py, in a virtual environment with the package."""
    folder = cache_dir("compat") / PACKAGES[-1].replace("==", "-")
    interpreter = folder / "bin" / "python"
    with lock("compat-peft"):
        if not (folder / ".complete").exists():
            free = shutil.disk_usage(folder.parent).free
            if free < 2 * NEEDED_BYTES:
                pytest.skip(f"the disk has {free >> 30} GiB free, too little for PyTorch")
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
            pip = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "--no-cache-dir", *PACKAGES], check=True)
            (folder / ".complete").touch()
    command = [interpreter, Path(__file__).with_name("peft_logits.py")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


def read_floats(path: Path, name: str) -> list[list[float]]:
    """A matrix of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8 : 8 + length])[name]
    begin, end = (8 + length + offset for offset in entry["data_offsets"])
    kind = {"F32": "f", "I32": "i", "I64": "q", "U32": "I"}[entry["dtype"]]
    numbers = struct.unpack(f"<{(end - begin) // struct.calcsize(kind)}{kind}", data[begin:end])
    width = entry["shape"][-1]
    return [list(numbers[i : i + width]) for i in range(0, len(numbers), width)]


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_what_we_save_gives_the_same_logits_in_peft(peft, adapter: str, tmp_path: Path):
    folder = MODELS / adapter
    subprocess.run([REWRITE, folder.parent, folder, tmp_path], check=True)
    prompt = read_floats(folder.parent / "golden.safetensors", "prompt")[0]
    request = {"model": str(folder.parent), "adapter": str(tmp_path), "tokens": prompt}
    print(json.dumps(request), file=peft.stdin, flush=True)
    line = peft.stdout.readline()
    assert line, "peft_logits.py ended; its messages are above"
    expected = read_floats(folder / "golden.safetensors", "logits")
    worst = max(
        abs(a - b)
        for row, other in zip(json.loads(line), expected, strict=True)
        for a, b in zip(row, other, strict=True)
    )
    assert worst < 1e-3
