"""`bakery build`: project → language module → checked component, put in place in one move."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bakery.errors import BakeryError
from bakery.languages import Language, detect
from bakery.project import Project
from bakery.report import Report

_COMPONENT_MAGIC = b"\0asm\x0d\0\x01\0"
_MODULE_MAGIC = b"\0asm\x01\0\0\0"


@dataclass(frozen=True)
class Built:
    """What a build made."""

    out: Path
    language: str
    size_bytes: int
    seconds: float


def build(
    project: Project, out: Path, *, language: Language | None, debug: bool, report: Report
) -> Built:
    """Builds `project` into `out`. `out` is either the finished component or what it was before."""
    began = time.monotonic()
    language = language or detect(project.root)
    _require_toolchain(language)
    if out.is_dir():
        raise BakeryError(f"{out} is a folder", hint=f"-o {out / project.manifest.name}.wasm")
    scratch = _scratch_beside(out)
    try:
        made = scratch / f"{project.manifest.name}.wasm"
        language.build(project, made, debug=debug, report=report)
        _check_component(made, language)
        os.replace(made, out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Built(out, language.TITLE, out.stat().st_size, time.monotonic() - began)


def _require_toolchain(language: Language) -> None:
    absent = language.missing()
    if not absent:
        return
    lines = [f"{part.tool}: {part.why}" for part in absent]
    commands = list(dict.fromkeys(part.install for part in absent))
    raise BakeryError(
        f"{language.TITLE} inferlets cannot be built here, something is missing:\n"
        + "\n".join(lines),
        hint="install it with\n" + "\n".join(commands),
    )


def _scratch_beside(out: Path) -> Path:
    """A folder on the same file system as `out`: only there is a rename atomic."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=".bakery-", dir=out.parent)).resolve()
    except OSError as error:
        raise BakeryError(f"cannot write to {out.parent}: {error.strerror}") from None


def _check_component(made: Path, language: Language) -> None:
    head = made.read_bytes()[: len(_COMPONENT_MAGIC)] if made.is_file() else b""
    if head == _COMPONENT_MAGIC:
        return
    was = "a core module, not a component" if head == _MODULE_MAGIC else "no WebAssembly"
    raise BakeryError(
        f"the {language.TITLE} toolchain ended well but made {was}; this is a fault "
        "in bakery or in that toolchain, not in your code"
    )
