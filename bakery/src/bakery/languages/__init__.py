"""The languages of inferlets: one module for each, all with the same interface.

A module defines NAME, TITLE and three functions; see `Language`. The rest of bakery knows nothing
else about a language.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol, cast

from bakery.errors import BakeryError
from bakery.project import SUFFIXES, Project
from bakery.report import Report
from bakery.toolchain import Missing


class Language(Protocol):
    """The interface of each module of this package."""

    NAME: str
    TITLE: str

    def detects(self, root: Path) -> bool:
        """Returns whether the folder looks like a project in this language."""

    def missing(self) -> list[Missing]:
        """Returns the parts of the toolchain that are not installed."""

    def build(self, project: Project, out: Path, *, debug: bool, report: Report) -> None:
        """Writes the component to `out`, or raises a BakeryError that names the user's line."""


# The order in which `detect` tries the languages.
ORDER = ("rust", "javascript", "cpp", "python")

# Command line flag → (module, template folder).
FLAGS = {
    "rust": ("rust", "rust"),
    "python": ("python", "python"),
    "ts": ("javascript", "typescript"),
    "js": ("javascript", "javascript"),
    "cpp": ("cpp", "cpp"),
}

# A build file decides the language; loose sources beside it, such as a helper script, do not.
_BUILD_FILES = {
    "rust": "Cargo.toml",
    "javascript": "package.json",
    "cpp": "CMakeLists.txt",
    "python": "pyproject.toml",
}


def load(name: str) -> Language:
    """Imports and returns the module of a language."""
    return cast(Language, importlib.import_module(f"{__name__}.{name}"))


def detect(root: Path) -> Language:
    """Detects the language of the project in `root`. Raises if there is none or more than one."""
    found = [name for name in ORDER if load(name).detects(root)]
    if not found:
        raise BakeryError(
            f"cannot tell in which language {root} is written",
            hint="add one of Cargo.toml (Rust), package.json or index.ts (TypeScript, "
            "JavaScript), CMakeLists.txt or a .cpp file (C++), pyproject.toml or main.py (Python)",
        )
    if len(found) > 1:
        by_build_file = [name for name in found if (root / _BUILD_FILES[name]).is_file()]
        found = by_build_file if len(by_build_file) == 1 else found
    if len(found) > 1:
        titles = " and ".join(load(name).TITLE for name in found)
        flags = " or ".join(f"--{flag_of(name)}" for name in found)
        raise BakeryError(
            f"{root} looks like {titles} at once", hint=f"choose the language with {flags}"
        )
    return load(found[0])


def language_of(project: Project, asked: str | None) -> Language:
    """The language of a project: the one that the user `asked` for, the one of the file that the
    user named, or the one that the folder's files tell."""
    named = SUFFIXES[project.entry.suffix] if project.entry else None
    if project.entry and asked and named and asked != named:
        raise BakeryError(
            f"{project.entry.name} is not a source file in {load(asked).TITLE}",
            hint=f"leave out --{flag_of(asked)}, or name another file",
        )
    known = named or asked
    return load(known) if known else detect(project.root)


def flag_of(name: str) -> str:
    """Returns the command line flag of a language module."""
    return next(flag for flag, (module, _) in FLAGS.items() if module == name)
