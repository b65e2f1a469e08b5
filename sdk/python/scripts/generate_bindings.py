#!/usr/bin/env python3
"""Writes Python bindings of the contract into sdk/python/bindings, for editors and type checkers.

Components do not use them: componentize-py makes their bindings while it builds them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SDK = Path(__file__).resolve().parents[1]
REPO = SDK.parents[1]
BINDINGS = SDK / "bindings"

WORLD = """package pie:%any;
interface run { run: func(input: string) -> result<string, string>; }
world inferlet { include pie:inferlet/imports; include pie:wasi/client; export run; }
"""


def main() -> int:
    tool = find_tool()
    if tool is None:
        print("componentize-py is missing; `make setup` installs it", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        wit = Path(folder) / "wit"
        wit.mkdir()
        subprocess.run([REPO / "sdk" / "wasi" / "merged_wit.sh", wit, "client"], check=True)
        (wit / "world.wit").write_text(WORLD)
        shutil.rmtree(BINDINGS, ignore_errors=True)
        command = [tool, "--quiet", "-d", wit, "-w", "inferlet", "bindings", BINDINGS]
        return subprocess.run(command, check=False).returncode


def find_tool() -> Path | str | None:
    """Of this interpreter's environment, of bakery's (`build/venv`), or on PATH."""
    for python in (Path(sys.executable), REPO / "build" / "venv" / "bin" / "python"):
        beside = python.parent / "componentize-py"
        if beside.is_file():
            return beside
    return shutil.which("componentize-py")


if __name__ == "__main__":
    sys.exit(main())
