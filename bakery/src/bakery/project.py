"""A project on disk: a folder, with a Pie.toml or without, or one source file of it."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bakery import manifest, names
from bakery.errors import BakeryError
from bakery.manifest import Manifest

__all__ = ["SUFFIXES", "Manifest", "Project", "open_project"]

# The endings of source files, and the language modules that build them.
SUFFIXES = {
    ".rs": "rust",
    ".py": "python",
    ".ts": "javascript", ".mts": "javascript", ".js": "javascript", ".mjs": "javascript",
    ".cpp": "cpp", ".cc": "cpp", ".cxx": "cpp",
}  # fmt: skip
# Files that describe a whole project. To name one is to name its folder.
_BUILD_FILES = {
    manifest.FILE_NAME,
    "Cargo.toml",
    "package.json",
    "CMakeLists.txt",
    "pyproject.toml",
}
# Stems that name a part of a program. Such a program has the name of its folder.
_GENERIC = {"main", "index", "app", "lib", "mod", "src", "__init__", "__main__"}
_VERSION = "0.1.0"
_NAME = "my-app"  # of a program whose files give it none


@dataclass(frozen=True)
class Project:
    """An inferlet's source folder."""

    root: Path
    manifest: Manifest
    entry: Path | None = None
    """The source file that the user named. None: the language decides which file is the entry."""
    loose: bool = False
    """Whether there is no Pie.toml."""

    @property
    def is_one_file(self) -> bool:
        """Whether the program is one file and what it imports: other files beside it may have
        nothing to do with it."""
        return self.loose and self.entry is not None


def open_project(path: Path) -> Project:
    """Opens the folder `path`, or the source file `path`."""
    if not path.exists():
        raise BakeryError(
            f"{path} does not exist",
            hint=f"make a project with `pie new {path.stem or _NAME}`",
        )
    path = path.resolve()
    if path.name in _BUILD_FILES and path.is_file():
        path = path.parent
    entry = None if path.is_dir() else path
    if entry and entry.suffix not in SUFFIXES:
        raise BakeryError(
            f"{entry.name} is not a source file of a language that bakery builds",
            hint=f"name a folder, or a file that ends in {', '.join(SUFFIXES)}",
        )
    root = _project_around(path) if entry else path
    manifest_path = root / manifest.FILE_NAME
    if manifest_path.is_file():
        return Project(root, manifest.read(manifest_path), entry)
    return Project(root, _assumed(root, entry), entry, loose=True)


def _project_around(source: Path) -> Path:
    """Returns the nearest folder above a source file with a Pie.toml. Without one, it is the
    nearest folder with a Cargo.toml for Rust, and the file's own folder for the other languages."""
    wanted = [manifest.FILE_NAME, *(["Cargo.toml"] if source.suffix == ".rs" else [])]
    for name in wanted:
        for folder in source.parents:
            if (folder / name).is_file():
                return folder
    return source.parent


def _assumed(root: Path, entry: Path | None) -> Manifest:
    """The manifest of a program that has no Pie.toml."""
    described = [] if entry and entry.suffix != ".rs" else _described(root)
    stem = entry.stem if entry and entry.stem not in _GENERIC else None
    folder = root.parent if root.name in _GENERIC else root
    candidates = [stem, *(name for name, _ in described), folder.name, _NAME]
    name = next(good for given in candidates if given is not None and (good := _valid_name(given)))
    version = next((text for _, text in described if manifest.is_version(text)), _VERSION)
    said = f"{root} has no {manifest.FILE_NAME}; the inferlet is called {name}, version {version}"
    return Manifest(name, version, "", {}, notices=(said,))


def _valid_name(name: str) -> str | None:
    return name if names.problem_with(name) is None else names.suggestion_for(name)


def _described(root: Path) -> list[tuple[str, str]]:
    """The names and versions in the build files of a folder."""
    found = []
    for file, section in (
        ("Cargo.toml", "package"),
        ("pyproject.toml", "project"),
        ("package.json", None),
    ):
        try:
            text = (root / file).read_text(encoding="utf-8")
            data: Any = json.loads(text) if section is None else tomllib.loads(text).get(section)
        except (OSError, ValueError):
            continue  # the language's own tools report what is wrong with it
        if isinstance(data, dict) and isinstance(data.get("name"), str):
            found.append((data["name"].rpartition("/")[2], str(data.get("version", ""))))
    return found
