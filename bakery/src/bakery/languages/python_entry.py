"""Finds the file with which a Python program begins, and the folder of its modules."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bakery.errors import BakeryError
from bakery.languages import python_imports
from bakery.project import Project

_STEMS = ("main", "app", "__main__")
# Beside Pie.toml and in src/. What comes first wins.
NAMES = [f"{folder}{stem}.py" for stem in _STEMS for folder in ("", "src/")]


@dataclass(frozen=True)
class Program:
    """The user's entry file, and the folder from which its modules are imported."""

    entry: Path
    folder: Path
    kind: str
    """`program` if it defines `main` and does not call it itself, `handler` if it defines `handle`,
    else `script`."""

    @property
    def module(self) -> str:
        """The name by which the entry is imported, such as `main` or `my_app.main`."""
        parts = self.entry.relative_to(self.folder).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find(project: Project) -> Program:
    """The program of a project, or of the file that the user named."""
    entry = project.entry or _find_entry(project.root)
    if entry is None:
        raise BakeryError(
            f"{project.root} has no entry file",
            hint="add a main.py with `async def main(input):`, or name a file; bakery looks for "
            + ", ".join(NAMES)
            + ", for the same names in the project's package, and for a single .py file",
        )
    try:
        source = entry.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BakeryError(f"{entry.name} is not UTF-8: {error}", where=f"{entry}:1") from None
    top = None if project.is_one_file else project.root
    return Program(entry, _folder_of(entry, source, top), _kind_of(source))


def _find_entry(root: Path) -> Path | None:
    for name in (*NAMES, *_of_package(root)):
        if (root / name).is_file():
            return root / name
    for folder in (root, root / "src"):
        sources = list(folder.glob("*.py"))
        if len(sources) == 1:
            return sources[0]
    return None


def _of_package(root: Path) -> list[str]:
    """Where the package that pyproject.toml describes may begin: the modules of its scripts, and
    the usual files of the package that has the project's name."""
    try:
        data = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []  # the reader of the dependencies reports the fault in it
    tables = [_table(data.get("project")), _table(_table(data.get("tool")).get("poetry"))]
    modules = [
        script.partition(":")[0].strip().replace(".", "/")
        for table in tables
        for script in _table(table.get("scripts")).values()
        if isinstance(script, str)
    ]
    files = [f"{module}{ending}" for module in modules for ending in (".py", "/__init__.py")]
    for table in tables:
        if isinstance(name := table.get("name"), str):
            package = re.sub(r"[-.]+", "_", name)
            files += [f"{package}/{stem}.py" for stem in (*_STEMS, "__init__")]
    return [f"{folder}{file}" for folder in ("", "src/") for file in files]


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _folder_of(entry: Path, source: str, top: Path | None) -> Path:
    """The folder from which the program's modules are imported: the entry's own, or that of its
    package where it imports from it. `top` is no package."""
    packages = []
    for folder in entry.parents:
        if folder == top or not (folder / "__init__.py").is_file():
            break
        packages.append(folder)
    names = {folder.name for folder in packages}
    in_package = entry.name == "__init__.py" or python_imports.imports_from(source, names)
    return packages[-1].parent if packages and in_package else entry.parent


def _kind_of(source: str) -> str:
    if python_imports.defines(source, "main"):
        return "script" if python_imports.calls(source, "main") else "program"
    return "handler" if python_imports.defines(source, "handle") else "script"
