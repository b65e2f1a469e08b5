"""`bakery create` makes a new project from a template. The project builds and runs unchanged."""

from __future__ import annotations

import shutil
from pathlib import Path

from bakery import names
from bakery.errors import BakeryError

TEMPLATES = Path(__file__).parent / "templates"
_NEVER_COPIED = {"__pycache__", "node_modules", "target", "build"}


def create(name: str, template: str, root: Path) -> list[Path]:
    """Writes the project `name` into `root` and returns its files, relative to `root`."""
    if problem := names.problem_with(name):
        better = names.suggestion_for(name)
        raise BakeryError(problem, hint=better and f"try `pie new {better}`")
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise BakeryError(
            f"{root} already exists and is not an empty folder",
            hint="choose another name, or another folder with -o DIR; nothing was changed",
        )
    source = TEMPLATES / template
    files = _files_of(source)
    if not files:
        raise BakeryError(
            f"the template for {template} is missing: {source} has no files",
            hint="restore the folder from the repository",
        )
    values = {"name": name, "description": f"The {name} inferlet"}
    made_root = not root.exists()
    try:
        for relative in files:
            _copy(source / relative, root / relative, values)
    except OSError as error:
        if made_root:
            shutil.rmtree(root, ignore_errors=True)
        raise BakeryError(f"cannot write {root}: {error.strerror}") from None
    return files


def render(text: str, values: dict[str, str]) -> str:
    """Replaces each `{{key}}` by its value. Other braces are left alone."""
    for key, value in values.items():
        text = text.replace("{{" + key + "}}", value)
    return text


def _files_of(source: Path) -> list[Path]:
    return sorted(
        path.relative_to(source)
        for path in source.rglob("*")
        if path.is_file() and not _NEVER_COPIED & set(path.relative_to(source).parts)
    )


def _copy(source: Path, target: Path, values: dict[str, str]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render(source.read_text(encoding="utf-8"), values), encoding="utf-8")
