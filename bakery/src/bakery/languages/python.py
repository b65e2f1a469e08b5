"""Python: componentize-py makes the component, or an interpreter that it has prepared before.

The component is a snapshot of an interpreter that has imported the program. Module-level code
therefore runs at build time, and nothing can be imported later. So bakery stages the sources, finds
late imports, and generates a module that imports all of them and exports `run`, or the handler of
HTTP requests (`inferlet._build`).
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from bakery.errors import BakeryError
from bakery.languages import python_base, python_entry, python_imports, python_packages
from bakery.languages.python_componentize import APP, componentize
from bakery.languages.python_entry import Program
from bakery.project import Project
from bakery.report import Report
from bakery.toolchain import Missing, find, sdk_root
from bakery.wit import HTTP_WORLD, WORLD, write_world

NAME = "python"
TITLE = "Python"

_RESERVED = {"inferlet", "wit_world", "componentize_py_types", "componentize_py_runtime", APP}
# The folders given with -p appear in the component as /0, /1, …: ours first, then the user's.
_USER_MOUNT = 1
# What the interpreter writes about an unawaited coroutine when it ends, after the error.
_WARNING = re.compile(r"^(.*: )?RuntimeWarning: ")
_FRAME = re.compile(r'File "/(\d+)/([^"]+)", line (\d+)')
_NO_MODULE = re.compile(r"No module named '([^']+)'")


def detects(root: Path) -> bool:
    """A Python project has a pyproject.toml, a requirements.txt, or a usual name of an entry."""
    names = ("pyproject.toml", "requirements.txt", *python_entry.NAMES)
    return any((root / name).is_file() for name in names)


def missing() -> list[Missing]:
    if find("componentize-py") is None:
        return [
            Missing("componentize-py", "it makes components from Python programs", "make setup")
        ]
    return []


def build(project: Project, out: Path, *, debug: bool, report: Report) -> None:
    program = python_entry.find(project)
    _check_names(program)
    wanted = python_packages.requirements(project, report)
    packages = python_packages.install(wanted, report=report)
    report.step("Snapshotting the Python program")
    found = python_imports.scan(
        program.entry,
        program.folder,
        [packages] if packages else [],
        script=program.kind == "script",
    )
    late = [(module, names, required) for (module, names), required in found.late.items()]
    world, exports = (HTTP_WORLD, _HANDLER) if program.kind == "handler" else (WORLD, _RUN)
    scratch = Path(tempfile.mkdtemp(prefix="bakery-python-"))
    try:
        staged = scratch / "program"
        _stage(program, found, staged, whole=not project.is_one_file)
        made = scratch / "component.wasm"
        result = python_base.snapshot(
            project,
            (program.kind, program.module, late),
            world=world,
            exports=exports,
            staged=staged,
            packages=packages,
            out=made,
            report=report,
        )
        if result is None:
            app = scratch / "app"
            app.mkdir()
            source = _app_source(program, late, exports)
            (app / f"{APP}.py").write_text(source, encoding="utf-8")
            wit = write_world(project, scratch / "wit")
            paths = [app, staged, *([packages] if packages else []), sdk_root() / "python" / "src"]
            result = componentize(paths, wit, world, made, report=report)
        if result.returncode != 0:
            raise _explain(result.stdout + result.stderr, program, found)
        shutil.move(made, out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check_names(program: Program) -> None:
    for name in sorted(_RESERVED):
        if (program.folder / f"{name}.py").exists() or (program.folder / name).is_dir():
            raise BakeryError(
                f"the module name {name} is reserved for a module that bakery adds",
                where=str(program.folder / name),
                hint="rename your module",
            )


def _stage(program: Program, found: python_imports.Scan, staged: Path, *, whole: bool) -> None:
    """Copies the program's folder, if it is `whole` the program's, or else the modules that the
    program imports from it."""
    if whole:
        shutil.copytree(program.folder, staged, ignore=_not_staged)
        return
    for source in found.own:
        target = staged / source.relative_to(program.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _not_staged(folder: str, names: list[str]) -> set[str]:
    """Leaves out hidden files, caches, virtual environments and components."""
    return {
        name
        for name in names
        if name.startswith(".")
        or name in ("__pycache__", "node_modules")
        or name.endswith(".wasm")
        or os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
    }


_RUN = """
class Run(exports.Run):
    def run(self, input: str) -> str:
        return _entry(input)
"""
_HANDLER = """
class IncomingHandler(exports.IncomingHandler):
    def handle(self, request, response_out) -> None:
        _entry(request, response_out)
"""


def _app_source(program: Program, late: list[python_imports.Late], exports: str) -> str:
    lines = "".join(f"    {item!r},\n" for item in late)
    return (
        '"""Made by bakery: imports the program into the snapshot and exports it."""\n\n'
        "from inferlet import _build\n"
        "from wit_world import exports\n\n"
        f"LATE = [\n{lines}]\n"
        f"_entry = _build.{program.kind}({program.module!r}, LATE)\n\n"
        f"{exports}"
    )


def _explain(output: str, program: Program, found: python_imports.Scan) -> BakeryError:
    """Turns componentize-py's report into one error at the user's own line."""
    report = output.split("Stack backtrace:")[0].split("\n\nCaused by:")[0]
    report = report.split("AssertionError: ", 1)[-1].strip()
    lines = [line for line in report.splitlines() if line.strip() and not _WARNING.search(line)]
    message = lines[-1].strip() if lines else "componentize-py failed without a message"
    where = None
    for mount, path, line in _FRAME.findall(report):
        if int(mount) == _USER_MOUNT:
            where = f"{program.folder / path}:{line}"
    absent = _NO_MODULE.search(message)
    if absent is None:
        return BakeryError(message, where=where, hint=_hint(message))
    if where is None and absent[1] in found.where:
        path, number = found.where[absent[1]]
        where = f"{path}:{number}"
    return BakeryError(
        message,
        where=where,
        hint=f"if {absent[1].split('.')[0]} is on PyPI, add it to [project].dependencies in "
        "pyproject.toml or to requirements.txt; packages with compiled parts do not work in a "
        "component",
    )


def _hint(message: str) -> str | None:
    if message.startswith(("SyntaxError", "IndentationError", "TabError")):
        return None
    if "asks the engine" in message:
        return "move the call into main(); without a main(), the whole file runs at launch"
    return "module-level code runs while the component is built; move the work of a run into main()"
