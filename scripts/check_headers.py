#!/usr/bin/env python3
"""Checks that every C++ header compiles on its own.

    scripts/check_headers.py

There are two checks. The compiler parses each header as the only include of a file, with the flags
of a source of the same folder. Headers of kernels (.cuh) are parsed as C++ with the CUDA emulator's
headers. Headers of the C++ SDK are parsed as a program of this machine, with what the SDK's own
compiler, which is clang, accepts. And a header that names a fixed-width integer type must include
<cstdint> itself: some versions of the standard library bring it along with other headers and some
do not, so one compiler cannot tell. A header that passed is compiled again only when one of our
headers or its flags change; build/headers/ remembers that.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATABASE = ROOT / "build" / "release" / "compile_commands.json"
PASSED = ROOT / "build" / "headers"
FOLDERS = ("src", "bench", "fuzz", "tests", "client/cpp", "sdk/cpp/include", "sdk/cpp/src")
SDK = ROOT / "sdk" / "cpp"
SDK_FLAGS = ["-std=c++23", "-fpermissive", "-w"]
SDK_FLAGS += [f"-I{SDK / folder}" for folder in ("include", "src", "generated")]
EMULATED = ["-DPIE_CUDA_EMULATED", f"-I{ROOT / 'src/backend/cuda/emulator/include'}"]
# Kernels are written for nvcc (cmake/cuda_emulator.cmake).
EMULATED += ["-Wno-unknown-pragmas", "-Wno-shadow", "-Wno-sign-compare", "-Wno-unused-parameter"]

_FIXED_WIDTH = re.compile(r"\bu?int(?:8|16|32|64|ptr)_t\b")
_COMMENT = re.compile(r"//.*")


def headers(root: Path = ROOT) -> list[Path]:
    """Returns every header that the system's compiler compiles. Headers of the C++ SDK are left
    out: bakery compiles them.
    """
    found = (
        path
        for folder in FOLDERS
        for path in (root / folder).rglob("*")
        if path.suffix in (".h", ".cuh")
    )
    return sorted(path for path in found if not _is_inferlet(path, root))


def _is_inferlet(path: Path, root: Path) -> bool:
    folders = [folder for folder in path.parents if folder.is_relative_to(root)]
    return any((folder / "Pie.toml").is_file() for folder in folders)


def lacks_cstdint(text: str) -> bool:
    """Whether a header names a fixed-width integer and leaves <cstdint> to others."""
    code = _COMMENT.sub("", text)
    return bool(_FIXED_WIDTH.search(code)) and "#include <cstdint>" not in code


def flags_by_folder() -> dict[Path, list[str]]:
    """Folder → the flags of one of its sources."""
    flags: dict[Path, list[str]] = {}
    for entry in json.loads(DATABASE.read_text()):
        words = shlex.split(entry["command"])
        kept = [word for word in words if word.startswith(("-I", "-D", "-std", "-W", "-m"))]
        systems = [words[at + 1] for at, word in enumerate(words) if word == "-isystem"]
        kept += [word for folder in systems for word in ("-isystem", folder)]
        flags.setdefault(Path(entry["file"]).parent, kept)
    return flags


def flags_of(header: Path, flags: dict[Path, list[str]]) -> list[str]:
    """The flags of the nearest folder upwards that has any, or of a folder src/ beside it."""
    if header.is_relative_to(SDK):
        return SDK_FLAGS
    for folder in header.parents:
        for place in (folder, folder / "src"):
            if place in flags:
                return flags[place] + (EMULATED if header.suffix == ".cuh" else [])
    raise SystemExit(f"{header}: no source is compiled near it; name its folder in CMakeLists.txt")


def complaint(header: Path, flags: list[str], common: str) -> str:
    """Returns the problem of one header; empty if there is none."""
    name = header.relative_to(ROOT)
    if lacks_cstdint(header.read_text(encoding="utf-8")):
        return f"{name}: it names a fixed-width integer type: add #include <cstdint>\n"
    stamp = PASSED / hashlib.sha256(f"{common} {name} {flags}".encode()).hexdigest()
    if stamp.exists():
        return ""
    compiler = os.environ.get("CXX", "c++")
    command = [compiler, "-fsyntax-only", "-x", "c++", *flags, "-include", str(header), "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        stamp.touch()
        return ""
    return f"{name}: it does not compile on its own\n{done.stderr}"


def main() -> int:
    if not DATABASE.is_file():
        print(f"{DATABASE} is missing: run make", file=sys.stderr)
        return 1
    PASSED.mkdir(parents=True, exist_ok=True)
    flags, all_headers = flags_by_folder(), headers()
    generated = sorted((ROOT / "build" / "release" / "bridge").glob("*.h"))
    digest = hashlib.sha256()
    for header in (*all_headers, *generated):
        digest.update(header.read_bytes())
    common = digest.hexdigest()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda path: complaint(path, flags_of(path, flags), common), all_headers)
        complaints = [text for text in found if text]
    print("\n".join(complaints), end="")
    print(f"headers: {len(all_headers)} headers, {len(complaints)} with complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
