#!/usr/bin/env python3
"""Checks the layers of src/: a folder includes only folders below it.

    scripts/check_layers.py [ROOT]

Reads every `#include "…"` under ROOT/src. Includes are written from src/ on ("kv/page_pool.h").
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

# Folder → the folders that it may include. A folder may always include itself.
_BELOW_HOST = ("base", "abi", "model", "speech", "kv", "backend", "sched", "wasm")
LAYERS: dict[str, tuple[str, ...]] = {
    "base": (),
    "abi": (),
    "model": ("base",),
    "speech": ("base", "abi", "model"),
    "kv": ("base",),
    "backend": ("base", "model", "kv"),
    "sched": ("base", "model", "kv", "backend"),
    "wasm": ("base", "abi"),
    "host": _BELOW_HOST,
    "server": (*_BELOW_HOST, "host"),
    "cli": (*_BELOW_HOST, "host", "server"),
}

# Backends are chosen at run time. No backend may include another; only the layers above, which
# choose one, may include them.
SIBLINGS = ("backend/cpu", "backend/cuda", "backend/dummy")

# The same rule for the parts of a backend, as the README.md of its folder describes them. The part
# "." is the files beside the folders. Tests are exempt.
PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "backend/cpu": {
        "machine": (),
        "quant": ("machine",),
        "matmul": ("machine", "quant"),
        "attention": ("machine",),
        "adapters": ("machine",),
        "weights": ("machine", "matmul"),
        "layers": ("machine", "quant", "matmul", "attention", "adapters", "weights"),
        ".": ("machine", "quant", "matmul", "attention", "adapters", "weights", "layers"),
    },
    # The emulator replaces some of the kernels' headers, and implements kernels/runtime.h.
    "backend/cuda": {
        "kernels": ("emulator",),
        "emulator": ("kernels",),
        "device": (".", "kernels"),
        ".": ("kernels",),
    },
}

# Parts that may include fewer folders of src/ than their layer may.
PART_LAYERS: dict[str, tuple[str, ...]] = {
    "backend/cuda/kernels": ("base",),
    "backend/cuda/emulator": ("base", "model"),
}

# The bridge's generated headers are the only includes from outside src/, for these folders alone.
OUTSIDE = {
    "pie_bridge.h": ("abi", "wasm", "host", "speech"),
    "pie_host_api.h": ("host",),
    "pie_host_table.h": ("host",),
}

_INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
_SOURCES = {".h", ".cc", ".cpp", ".cu", ".cuh"}


@dataclass(frozen=True)
class Violation:
    """An include that points the wrong way."""

    file: Path
    line: int
    included: str
    reason: str

    def __str__(self) -> str:
        return f'{self.file}:{self.line}: #include "{self.included}": {self.reason}'


def check(root: Path) -> list[Violation]:
    """All violations under root/src, in the order of the files."""
    src = root / "src"
    found: list[Violation] = []
    for path in sorted(path for path in src.rglob("*") if path.suffix in _SOURCES):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            include = _INCLUDE.match(line)
            if include and (reason := problem(src, path.relative_to(src), include[1])):
                found.append(Violation(path.relative_to(root), number, include[1], reason))
    return found


def problem(src: Path, file: Path, included: str) -> str | None:
    """Why `file` (relative to src) may not include `included`, or None."""
    layer = file.parts[0]
    if layer not in LAYERS:
        return f"src/{layer} has no layer; add it to LAYERS in scripts/check_layers.py"
    name = included.rsplit("/", 1)[-1]
    if name in OUTSIDE:
        doors = OUTSIDE[name]
        return None if layer in doors else f"only {' and '.join(doors)} may see the bridge"
    target = included.split("/", 1)[0]
    if target not in LAYERS or "/" not in included:
        return f'write it from src/ on, such as "{layer}/{name}", or with <…> when it is not ours'
    if not (src / included).is_file():
        return f"src/{included} does not exist"
    if target != layer and target not in LAYERS[layer]:
        may = ", ".join(LAYERS[layer]) or "nothing"
        return f"{layer} may include {may}, but {target} is not below it"
    return _sibling_problem(file.as_posix(), included, layer) or _part_problem(file, included)


def _sibling_problem(file: str, included: str, layer: str) -> str | None:
    target = next((name for name in SIBLINGS if included.startswith(f"{name}/")), None)
    if target is None or file.startswith(f"{target}/"):
        return None
    if layer == "backend":
        return f"{target} is private to itself; other backends go through backend/backend.h"
    return None


def _part_of(path: Path) -> tuple[str, str] | None:
    """The backend that has parts, and the part of it to which a file of src/ belongs."""
    for backend in PARTS:
        if path.is_relative_to(backend):
            within = path.relative_to(backend)
            return backend, within.parts[0] if len(within.parts) > 1 else "."
    return None


def _part_problem(file: Path, included: str) -> str | None:
    place, target = _part_of(file), _part_of(Path(included))
    if place is None or file.stem.endswith("_test"):
        return None
    backend, part = place
    parts = PARTS[backend]
    if part not in parts:
        return f"src/{backend}/{part} has no layer; add it to PARTS in scripts/check_layers.py"
    if target is None:
        folder, layer = f"{backend}/{part}", included.split("/", 1)[0]
        allowed = PART_LAYERS.get(folder, (layer,))
        return None if layer in allowed else f"{folder} may include {', '.join(allowed)} alone"
    other = target[1]
    if other != part and other not in parts[part]:
        may = ", ".join(parts[part]) or "nothing"
        return f"{backend}/{part} may include {may} of {backend}, but {other} is not below it"
    return None


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    violations = check(root)
    for violation in violations:
        print(violation, file=sys.stderr)
    if violations:
        print(f"{len(violations)} includes break the layers of src/", file=sys.stderr)
        return 1
    print("layers: every include points down")
    return 0


if __name__ == "__main__":
    sys.exit(main())
