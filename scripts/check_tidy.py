#!/usr/bin/env python3
"""Runs clang-tidy over src/ and client/cpp/, only on files that changed since they last passed.

The result for a file depends on the file, all our headers, its compile command and .clang-tidy.
When a file passes, the hash of these is recorded in build/tidy/.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATABASE = ROOT / "build" / "release" / "compile_commands.json"
PASSED = ROOT / "build" / "tidy"
FOLDERS = (ROOT / "src", ROOT / "client" / "cpp" / "src")


def entries() -> list[dict[str, str]]:
    """The compile commands of our own sources, each once. The fuzzer's second compilation, which
    only g++ accepts, is left out, and so is the CUDA emulator's, which compiles kernels as C++.
    So are tests: clang-tidy is slow on gtest's macros."""
    return [
        entry
        for entry in json.loads(DATABASE.read_text())
        if any(Path(entry["file"]).is_relative_to(folder) for folder in FOLDERS)
        and not entry["file"].endswith("_test.cc")
        and "pie-fuzz.dir" not in entry["command"]
        and "pie_cuda_emulated.dir" not in entry["command"]
    ]


def headers_hash() -> str:
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    folders = (*FOLDERS, ROOT / "client" / "cpp" / "include")
    for path in sorted(header for folder in folders for header in folder.rglob("*.h")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def tidy(entry: dict[str, str], common: str) -> str:
    """The complaints about one file; empty if there are none."""
    file = Path(entry["file"])
    key = hashlib.sha256(f"{common}{entry.get('command')}".encode() + file.read_bytes()).hexdigest()
    stamp = PASSED / key
    if stamp.exists():
        return ""
    done = subprocess.run(
        ["clang-tidy-19", "--quiet", "-p", PASSED, file],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        stamp.touch()
        return ""
    return done.stdout or done.stderr


def main() -> int:
    if not DATABASE.is_file():
        print(f"{DATABASE} is missing: run make", file=sys.stderr)
        return 1
    PASSED.mkdir(parents=True, exist_ok=True)
    common = headers_hash()
    todo = entries()
    # clang-tidy runs every command that its database has for a file. It gets these only.
    (PASSED / DATABASE.name).write_text(json.dumps(todo))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(lambda entry: tidy(entry, common), todo) if text]
    print("\n".join(complaints), end="")
    print(f"tidy: {len(todo)} files, {len(complaints)} with complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
