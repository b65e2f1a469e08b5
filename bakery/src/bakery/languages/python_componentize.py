"""Runs componentize-py."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bakery.languages import python_packages
from bakery.report import Report
from bakery.toolchain import find, run

APP = "_pie_app"  # the module that exports the program


def componentize(
    paths: list[Path], wit: Path, world: str, out: Path, *, report: Report
) -> subprocess.CompletedProcess[str]:
    """Makes a component of the module APP. The interpreter sees `paths` as /0, /1, and so on."""
    command = [
        *(find("componentize-py"), "--quiet", "-d", wit, "-w", world, "componentize"),
        *(argument for path in paths for argument in ("-p", path)),
        *(APP, "-o", out),
    ]
    scratch = wit.parent
    return run(command, cwd=scratch, env=_clean_environment(scratch), report=report)


def _clean_environment(scratch: Path) -> dict[str, str | None]:
    """Hides this machine's Python settings and site-packages from componentize-py."""
    nowhere = scratch / "no-packages"
    (nowhere / "lib" / f"python{python_packages.GUEST_PYTHON}" / "site-packages").mkdir(
        parents=True
    )
    environment: dict[str, str | None] = {
        key: None for key in os.environ if key.startswith(("PYTHON", "PIPENV", "CONDA"))
    }
    return {**environment, "VIRTUAL_ENV": str(nowhere), "RUST_BACKTRACE": "0"}
