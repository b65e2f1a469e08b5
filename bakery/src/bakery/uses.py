"""Marks what bakery uses of the cache, so that `pie cache prune` keeps it.

Reading a file leaves no trace on file systems that are mounted without access times. So the time of
a file in each entry is set: of the `.complete` that the set-up wrote, or of a file `.used`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from bakery.toolchain import cache_dir, find, node_modules

_PACKAGES = {"javascript": "js-packages", "python": "python-packages"}


def mark_tools() -> None:
    """Marks the environment of bakery, its npm packages, and Rust if it is of the cache."""
    folders = [Path(sys.prefix), node_modules().parent]
    rustup = cache_dir("rustup") if (cache_dir(".") / "rustup").is_dir() else None
    cargo = find("cargo")
    if rustup and cargo and cargo.resolve().is_relative_to(rustup.resolve()):
        folders.append(rustup)
    for folder in folders:
        for file in folder.glob(".complete*"):
            with contextlib.suppress(OSError):
                os.utime(file)


def mark_builds(language: str) -> None:
    """Marks the files that builds in a language have left as used."""
    for name in (f"guests/{language}", _PACKAGES.get(language, "")):
        folder = cache_dir(".") / name
        with contextlib.suppress(OSError):
            if name and folder.is_dir():
                (folder / ".used").touch()
