"""Fixtures of the end-to-end tests: the program `pie`, the inferlets of this tree, and a runner."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPTIMISING = "optimising the code for later runs (Ctrl-C skips this)"
_LIMIT_S = 240  # the first run of a Python or JavaScript component compiles it

Completed = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def pie() -> Path:
    """The program. $PIE_BINARY names another one, such as a sanitizer build."""
    program = Path(os.environ.get("PIE_BINARY", ROOT / "build" / "bin" / "pie"))
    assert program.is_file(), f"{program} is missing: run `make`"
    return program


@pytest.fixture(scope="session")
def guest() -> Callable[[str], list[str | Path]]:
    """Gives `--path … --manifest …` of an inferlet, by the name of its file in build/guests."""
    manifests = {
        f"{manifest.parent.parent.name}-{manifest.parent.name}": manifest
        for manifest in (ROOT / "inferlets").glob("*/*/Pie.toml")
    }
    manifests["hostile-guest"] = ROOT / "tests" / "hostile" / "guest" / "Pie.toml"

    def arguments(name: str) -> list[str | Path]:
        component = ROOT / "build" / "guests" / f"{name}.wasm"
        assert component.is_file(), f"{component} is missing: run `make guests`"
        return ["--path", component, "--manifest", manifests[name]]

    return arguments


@pytest.fixture(scope="session")
def run(pie: Path) -> Callable[..., Completed]:
    """Runs `pie …` to its end and returns what it wrote, as text, without the notice of a long
    compilation. Whether that comes depends on the machine and its cache."""

    def run_pie(*arguments: str | Path, env: dict[str, str] | None = None, stdin="") -> Completed:
        done = subprocess.run(
            [pie, *arguments],
            env={**os.environ, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        done.stderr = done.stderr.replace(f"{OPTIMISING}\n", "")
        return done

    return run_pie
