"""The languages an inferlet can be written in: one module each, all with the same face.

A module defines NAME, TITLE and three functions, see `Language`. bakery's core knows nothing
else of a language.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol, cast

from bakery.errors import BakeryError
from bakery.project import Project
from bakery.report import Report
from bakery.toolchain import Missing


class Language(Protocol):
    """What each module of this package offers."""

    NAME: str
    TITLE: str

    def detects(self, root: Path) -> bool:
        """Whether the folder looks like a project in this language."""

    def missing(self) -> list[Missing]:
        """The parts of the toolchain that are absent."""

    def build(self, project: Project, out: Path, *, debug: bool, report: Report) -> None:
        """Writes the component to `out`, or raises a BakeryError pointing at the user's line."""


# In the order in which a folder is looked at.
ORDER = ("rust", "javascript", "cpp", "python")

# Command line flag → (module, template folder).
FLAGS = {
    "rust": ("rust", "rust"),
    "python": ("python", "python"),
    "ts": ("javascript", "typescript"),
    "cpp": ("cpp", "cpp"),
}

# A build file says what a project is; loose sources beside it (a helper script, say) do not.
_BUILD_FILES = {
    "rust": "Cargo.toml",
    "javascript": "package.json",
    "cpp": "CMakeLists.txt",
    "python": "pyproject.toml",
}


def load(name: str) -> Language:
    """The module of a language, imported only when it is needed."""
    return cast(Language, importlib.import_module(f"{__name__}.{name}"))


def detect(root: Path) -> Language:
    """The language of the project in `root`. None, or more than one, is the user's to settle."""
    found = [name for name in ORDER if load(name).detects(root)]
    if not found:
        raise BakeryError(
            f"cannot tell which language {root} is written in",
            hint="a project has one of: Cargo.toml (Rust), package.json or index.ts (TypeScript, "
            "JavaScript), CMakeLists.txt or a .cpp file (C++), pyproject.toml or main.py (Python)",
        )
    if len(found) > 1:
        by_build_file = [name for name in found if (root / _BUILD_FILES[name]).is_file()]
        found = by_build_file if len(by_build_file) == 1 else found
    if len(found) > 1:
        titles = " and ".join(load(name).TITLE for name in found)
        flags = " or ".join(f"--{flag_of(name)}" for name in found)
        raise BakeryError(f"{root} looks like {titles} at once", hint=f"say which: {flags}")
    return load(found[0])


def flag_of(name: str) -> str:
    """The command line flag of a language module."""
    return next(flag for flag, (module, _) in FLAGS.items() if module == name)
