"""`bakery build`: builds a project, checks the component, and renames it into place."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bakery.errors import BakeryError
from bakery.languages import Language, language_of
from bakery.project import Project
from bakery.report import Report

_COMPONENT_MAGIC = b"\0asm\x0d\0\x01\0"
_MODULE_MAGIC = b"\0asm\x01\0\0\0"


@dataclass(frozen=True)
class Built:
    """The result of a build."""

    out: Path
    language: str
    size_bytes: int
    seconds: float


def build(
    project: Project, out: Path, *, language: Language | None, debug: bool, report: Report
) -> Built:
    """Builds `project` into `out`. If the build fails, `out` is not changed."""
    began = time.monotonic()
    for notice in project.manifest.notices:
        report.step(notice)
    language = language or language_of(project, None)
    _require_toolchain(language)
    if out.is_dir():
        raise BakeryError(
            f"the output {out} is a folder, not a file",
            hint=f"use -o {out / project.manifest.name}.wasm",
        )
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
        f"{language.TITLE} inferlets cannot be built here, because tools are missing:\n"
        + "\n".join(lines),
        hint="install them with\n" + "\n".join(commands),
    )


def _scratch_beside(out: Path) -> Path:
    """Makes a folder on the same file system as `out`, so that the final rename is atomic."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=".bakery-", dir=out.parent)).resolve()
    except OSError as error:
        raise BakeryError(f"cannot write to {out.parent}: {error.strerror}") from None


def _check_component(made: Path, language: Language) -> None:
    head = b""
    if made.is_file():
        with made.open("rb") as file:
            head = file.read(len(_COMPONENT_MAGIC))
    if head == _COMPONENT_MAGIC:
        return
    was = "a core module" if head == _MODULE_MAGIC else "a file that is not WebAssembly"
    raise BakeryError(
        f"the {language.TITLE} toolchain reported success but wrote {was} instead of a component; "
        "this is a bug in bakery or in the toolchain, not in your code"
    )
