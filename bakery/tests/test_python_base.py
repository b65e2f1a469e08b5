"""Rebuilds of Python programs: the prepared interpreter, and what happens without it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bakery.errors import BakeryError
from bakery.languages import python, python_base
from bakery.project import Manifest, Project
from bakery.report import Report
from bakery.toolchain import find

JS = Path(__file__).resolve().parents[1] / "js"
_QUIET = Report(quiet=True)
_MAIN = "async def main(input):\n    return 1\n"

needs_tools = pytest.mark.skipif(
    bool(python.missing()) or not python_base._possible([]), reason="run `make setup`"
)


def _project(folder: Path, source: str, name: str = "my-app") -> Project:
    (folder / "main.py").write_text(source, encoding="utf-8")
    return Project(folder, Manifest(name, "0.1.0", "", {}))


def _forbid_componentize(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("componentize-py ran")

    monkeypatch.setattr(python, "componentize", refuse)
    monkeypatch.setattr(python_base, "componentize", refuse)


@needs_tools
def test_a_rebuild_does_not_run_componentize_py(tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    first, second = tmp_path / "first.wasm", tmp_path / "second.wasm"
    python.build(_project(tmp_path / "project", _MAIN), first, debug=False, report=_QUIET)
    _forbid_componentize(monkeypatch)
    mark = "an unusual text"
    changed = _project(tmp_path / "project", f"TEXT = {mark!r}\n{_MAIN}", "other-app")
    python.build(changed, second, debug=False, report=_QUIET)
    assert b"pie:my-app/run" in first.read_bytes()
    assert b"pie:other-app/run" in second.read_bytes()
    assert mark.encode() in second.read_bytes()
    assert mark.encode() not in first.read_bytes()


@needs_tools
@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("print('x')\n\nraise ValueError('no good')\n", 3, r"^ValueError: no good$"),
        ("import nowhere\n", 1, "No module named 'nowhere'"),
        ("from inferlet import runtime\nruntime.models()\n", 2, "asks the engine"),
        (
            "import asyncio\nfrom inferlet import runtime\n"
            "async def f():\n    return runtime.models()\nasyncio.run(f())\n",
            4,
            "asks the engine",
        ),
        ("import os\nos.symlink('/1', '/1/link')\n", 2, "not permitted"),
    ],
)
def test_an_error_of_the_program_names_its_line(tmp_path, monkeypatch, source, line, message):
    (tmp_path / "project").mkdir()
    python.build(
        _project(tmp_path / "project", _MAIN), tmp_path / "a.wasm", debug=False, report=_QUIET
    )
    _forbid_componentize(monkeypatch)
    project = _project(tmp_path / "project", source + _MAIN)
    with pytest.raises(BakeryError, match=message) as caught:
        python.build(project, tmp_path / "b.wasm", debug=False, report=_QUIET)
    assert caught.value.where == f"{tmp_path / 'project' / 'main.py'}:{line}"


@needs_tools
def test_componentize_py_builds_what_the_base_cannot_hold(tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "native.so").write_bytes(b"")
    asked = []

    def note(paths, wit, world, out, *, report):
        asked.append(world)
        out.write_bytes(b"made")
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setattr(python, "componentize", note)
    project = _project(tmp_path / "project", _MAIN)
    python.build(project, tmp_path / "a.wasm", debug=False, report=_QUIET)
    assert asked == ["inferlet"]
    assert (tmp_path / "a.wasm").read_bytes() == b"made"


@pytest.mark.skipif(find("node") is None, reason="Node is missing")
def test_a_module_gets_another_memory_and_shows_its_variables(tmp_path):
    script = tmp_path / "check.mjs"
    script.write_text(
        f"import * as core from {json.dumps((JS / 'core_module.mjs').as_uri())};\n"
        + """
        // (module (memory (export "m") 1) (global (mut i32) (i32.const 300))
        //   (global i32 (i32.const 1)) (data (i32.const 8) "ab"))
        const bytes = Buffer.from([
          0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 5, 3, 1, 0, 1,
          6, 12, 2, 0x7f, 1, 0x41, 0xac, 2, 0x0b, 0x7f, 0, 0x41, 1, 0x0b,
          7, 5, 1, 1, 0x6d, 2, 0, 11, 8, 1, 0, 0x41, 8, 0x0b, 2, 0x61, 0x62,
        ]);
        const start = async (parts) =>
          (await WebAssembly.instantiate(Buffer.concat(parts))).instance;
        const shown = await start([core.exportVariables(bytes)]);
        const memory = Buffer.alloc(3 * 65536);
        memory.write('begin', 0);
        memory.write('middle', 70_001);
        memory.write('end', memory.length - 3);
        const filled = await start(core.withMemory(bytes, memory));
        console.log(JSON.stringify({
          variables: core.variablesOf(shown).map(({ value }) => value),
          has: core.definesMemory(bytes),
          same: memory.equals(Buffer.from(filled.exports.m.buffer)),
          small: Buffer.concat(core.withMemory(bytes, memory)).length < 500,
        }));
        """
    )
    done = subprocess.run(["node", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"variables": [300], "has": True, "same": True, "small": True}
