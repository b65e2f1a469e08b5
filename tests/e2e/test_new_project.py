"""A newcomer's first minutes: create, build, run; then a mistake, and bakery's message about it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BAKERY = ROOT / "build" / "bin" / "bakery"
PIE = ROOT / "build" / "bin" / "pie"
_LIMIT_S = 300  # the first build of a language compiles its SDK

# Language flag → (source file of its template, a text in it, the same text with a typing error).
SOURCES = {
    "rust": ("src/lib.rs", "Context::new(&model)?", "Context::knew(&model)?"),
    "python": (
        "main.py",
        "async def main(input: dict) -> str:",
        "async def main(input: dict -> str:",
    ),
    "ts": ("index.ts", "using ctx = new", "using ctx = = new"),
    "cpp": ("main.cpp", "Context::New(model)", "Context::Knew(model)"),
}

every_language = pytest.mark.parametrize("flag", SOURCES)


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, cwd=ROOT
    )


@every_language
def test_create_build_run(tmp_path, flag):
    project = tmp_path / "my-app-2"  # a later word of a name may begin with a digit
    component = tmp_path / "my-app-2.wasm"
    created = _run(BAKERY, "create", "my-app-2", f"--{flag}", "-o", project)
    assert created.returncode == 0, created.stderr
    built = _run(BAKERY, "build", project, "-o", component)
    assert built.returncode == 0, built.stderr
    assert built.stdout.startswith(f"built {component} (")

    run = (PIE, "run", "--dummy", "--path", component, "--manifest", project / "Pie.toml")
    ran = _run(*run, "--", "--prompt", "Hello", "--max-tokens", "8")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip(), "the return value is printed"

    tested = _run(PIE, "test", project, "--path", component)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert tested.stdout.endswith("2 passed, 0 failed\n")


def test_an_http_inferlet_is_built_and_tested(tmp_path):
    project = tmp_path / "my-app"
    assert _run(BAKERY, "create", "my-app", "--http", "-o", project).returncode == 0
    tested = _run(PIE, "test", project)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert tested.stdout.endswith("2 passed, 0 failed\n")


@every_language
def test_a_mistake_is_shown_where_it_is(tmp_path, flag):
    project = tmp_path / "my-app"
    assert _run(BAKERY, "create", "my-app", f"--{flag}", "-o", project).returncode == 0
    name, right, wrong = SOURCES[flag]
    source = project / name
    text = source.read_text()
    assert right in text
    line = text[: text.index(right)].count("\n") + 1
    source.write_text(text.replace(right, wrong))

    built = _run(BAKERY, "build", project, "-o", tmp_path / "my-app.wasm")
    assert built.returncode == 1
    assert f"{name}:{line}" in built.stderr
    assert "Traceback" not in built.stderr
    assert not (tmp_path / "my-app.wasm").exists()
