"""Installs the PyPI packages of a Python inferlet and caches them by their requirements."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

from bakery.errors import BakeryError
from bakery.project import Project
from bakery.report import Report
from bakery.toolchain import cache_dir, lock, run

GUEST_PYTHON = "3.14"  # the version of the interpreter inside componentize-py
_PROVIDED = {"inferlet"}  # bakery adds the SDK itself


def requirements(project: Project) -> list[str]:
    """Reads `[project].dependencies` of pyproject.toml."""
    path = project.root / "pyproject.toml"
    if not path.is_file():
        return []
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BakeryError(f"pyproject.toml is not valid TOML: {error}", where=str(path)) from None
    wanted = data.get("project", {}).get("dependencies", [])
    if not isinstance(wanted, list) or not all(isinstance(item, str) for item in wanted):
        raise BakeryError("[project].dependencies must be a list of strings", where=str(path))
    return sorted(item for item in wanted if _name_of(item) not in _PROVIDED)


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
            hint="check [project].dependencies in pyproject.toml; the first build needs a network",
        )
    for compiled in (*target.rglob("*.so"), *target.rglob("*.pyd")):
        compiled.unlink()


def _last_errors(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return "\n".join((errors or lines)[-4:])
