"""A project on disk: a folder with a Pie.toml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bakery import manifest
from bakery.errors import BakeryError
from bakery.manifest import Manifest

__all__ = ["Manifest", "Project", "open_project"]


@dataclass(frozen=True)
class Project:
    """An inferlet's source folder."""

    root: Path
    manifest: Manifest


def open_project(path: Path) -> Project:
    """Opens the folder `path`, or the folder that the source file `path` is in."""
    if not path.exists():
        raise BakeryError(
            f"{path} does not exist",
            hint=f"make a project with `pie new {path.name or 'my-app'}`",
        )
    root = (path if path.is_dir() else _project_around(path)).resolve()
    manifest_path = root / manifest.FILE_NAME
    if not manifest_path.is_file():
        raise BakeryError(
            f"{root} has no {manifest.FILE_NAME}",
            hint='add one; the smallest is\n[package]\nname = "my-app"\nversion = "0.1.0"',
        )
    return Project(root=root, manifest=manifest.read(manifest_path))


def _project_around(source: Path) -> Path:
    """Returns the nearest folder above a source file with a Pie.toml, or the file's own folder."""
    for folder in source.resolve().parents:
        if (folder / manifest.FILE_NAME).is_file():
            return folder
    return source.parent
