"""Installs the PyPI packages of a Python inferlet and caches them by their requirements."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from bakery.errors import BakeryError
from bakery.project import Project
from bakery.report import Report
from bakery.toolchain import cache_dir, lock, run

GUEST_PYTHON = "3.14"  # the version of the interpreter inside componentize-py
_PROVIDED = {"inferlet"}  # bakery adds the SDK itself
_POETRY_BOUND = re.compile(r"(\^|~|==|=|>=|<=|!=|>|<)?\s*(\d+(?:\.\d+)*(?:\.\*)?)\Z")


def requirements(project: Project, report: Report) -> list[str]:
    """Reads `[project].dependencies` of pyproject.toml. A project without them has its packages
    in the tables of poetry, or in a requirements.txt. What pip cannot install from there is left
    out with a notice."""
    return sorted(
        item for item in _declared(project.root, report) if _name_of(item) not in _PROVIDED
    )


def _declared(root: Path, report: Report) -> list[str]:
    path = root / "pyproject.toml"
    data: dict[str, Any] = {}
    if path.is_file():
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BakeryError(
                f"pyproject.toml is not valid TOML: {error}", where=str(path)
            ) from None
    project = data.get("project", {})
    if "dependencies" in project:
        wanted = project["dependencies"]
        if not isinstance(wanted, list) or not all(isinstance(item, str) for item in wanted):
            raise BakeryError("[project].dependencies must be a list of strings", where=str(path))
        return wanted
    poetry = data.get("tool", {}).get("poetry", {}).get("dependencies")
    if isinstance(poetry, dict):
        items = ((name, asked) for name, asked in poetry.items() if name != "python")
        return [made for name, asked in items if (made := _of_poetry(name, asked, report))]
    return _of_requirements(root / "requirements.txt", frozenset(), report)


def _of_poetry(name: str, asked: Any, report: Report) -> str | None:
    """A requirement in pip's form. None: poetry installs it on demand only."""
    table = asked if isinstance(asked, dict) else {"version": asked}
    if table.get("optional") is True:
        return None
    bounds = [_bound(part.strip()) for part in str(table.get("version", "*")).split(",")]
    known = table.keys() <= {"version", "optional", "extras"} and isinstance(
        table.get("version", "*"), str
    )
    if not known or None in bounds:
        report.step(
            f"not installed: {name} = {asked!r} of [tool.poetry.dependencies]; write it in "
            f"[project] as dependencies = [...]"
        )
        return None
    extras = ",".join(table.get("extras", []))
    return f"{name}{f'[{extras}]' if extras else ''}{','.join(filter(None, bounds))}"


def _bound(text: str) -> str | None:
    """A version bound of poetry in pip's form: `^1.2.3` is `>=1.2.3,<2`."""
    if text in ("*", ""):
        return ""
    found = _POETRY_BOUND.match(text)
    if found is None:
        return None
    operator, version = found[1], found[2]
    if operator not in ("^", "~"):
        return f"{operator or '=='}{version}"
    numbers = [int(part) for part in version.split(".")]
    if operator == "~":  # the second number may not change, or the first if it is alone
        at = min(1, len(numbers) - 1)
    else:  # the first number that is not 0 may not change
        at = next((i for i, number in enumerate(numbers) if number), len(numbers) - 1)
    limit = [*numbers[:at], numbers[at] + 1]
    return f">={version},<{'.'.join(map(str, limit))}"


def _of_requirements(path: Path, seen: frozenset[Path], report: Report) -> list[str]:
    """The lines of a requirements.txt, and of the files that it names with -r."""
    if not path.is_file() or path in seen:
        return []
    wanted: list[str] = []
    text = path.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
    for number, written in enumerate(text.splitlines(), start=1):
        line = re.sub(r"(^|\s)#.*", "", written).strip()
        line = re.sub(r"\s--hash=\S+", "", line).strip()
        if not line:
            continue
        if other := re.match(r"(?:-r|--requirement)[ =]\s*(\S+)\Z", line):
            wanted += _of_requirements(path.parent / other[1], seen | {path}, report)
        elif line.startswith(("-", ".", "/")):
            report.step(f"{path}:{number}: not installed: {line}; bakery takes names of PyPI only")
        else:
            wanted.append(line)
    return wanted


def _name_of(requirement: str) -> str:
    for index, char in enumerate(requirement):
        if not (char.isalnum() or char in "-_."):
            return requirement[:index].lower()
    return requirement.lower()


def install(wanted: list[str], *, report: Report) -> Path | None:
    """Returns a folder with these packages, from the cache if possible. None if none are wanted."""
    if not wanted:
        return None
    digest = hashlib.sha256("\n".join([GUEST_PYTHON, *wanted]).encode()).hexdigest()[:16]
    target = cache_dir("python-packages") / digest
    with lock(f"python-packages-{digest}"):
        if not target.is_dir():
            report.step(f"Installing {', '.join(wanted)}")
            scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
            try:
                _pip_install(wanted, scratch, report)
                os.replace(scratch, target)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return target


def _pip_install(wanted: list[str], target: Path, report: Report) -> None:
    """Installs pure wheels for the guest's Python if all packages have one. Otherwise installs the
    wheels for this machine and removes their compiled parts, which many packages can do without."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    into = ["--no-compile", "--upgrade", "--target", str(target)]
    pure = ["--only-binary=:all:", "--implementation=py", "--abi=none", "--platform=any"]
    version = [f"--python-version={GUEST_PYTHON}"]
    if run([*pip, *into, *pure, *version, *wanted], cwd=target, report=report).returncode == 0:
        return
    result = run([*pip, *into, *wanted], cwd=target, report=report)
    if result.returncode != 0:
        raise BakeryError(
            "pip could not install the dependencies:\n" + _last_errors(result.stderr),
            hint="check the dependencies in pyproject.toml or requirements.txt; the first build "
            "needs a network",
        )
    for compiled in (*target.rglob("*.so"), *target.rglob("*.pyd")):
        compiled.unlink()


def _last_errors(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return "\n".join((errors or lines)[-4:])
