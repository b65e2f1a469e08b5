"""The prepared Python interpreter, which makes rebuilds fast.

componentize-py compiles all of CPython to machine code in order to import one program. bakery
therefore lets it make one component that has imported only the SDK: the base. A build then runs the
base in Node, whose compiler is lazy, imports the program there, and writes the base with the new
memory. The base is kept in the cache under a key of the SDK, the contract and the tools.

Without Node, and for programs that the base cannot hold, `snapshot` returns None. The caller then
lets componentize-py make the component.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from bakery.languages.python_componentize import APP, componentize
from bakery.languages.python_imports import Late
from bakery.project import Project
from bakery.report import Report
from bakery.toolchain import cache_dir, find, lock, node_modules, run, sdk_root
from bakery.wit import WORLD, write_world

PYTHON_FAILED = 20  # the exit status of python_snapshot.mjs if the program cannot be imported

_JS = Path(__file__).resolve().parents[3] / "js"
_SCRIPTS = ("python_base.mjs", "python_snapshot.mjs", "core_module.mjs", "wasm.mjs")
_NAME = "base"  # of its package; a snapshot has the program's name
_KEPT = 4  # how many bases are kept; one has about 70 MB

# componentize-py removes the folders that it adds by itself, the standard library among them. So
# the base copies them to /4 while it is made.
_APP_SOURCE = """\
# Made by bakery: exports a program that is imported into the snapshot later.
import os
import sys

from inferlet import _build
from wit_world import exports

_entry = None


def load(kind, name, late):
    global _entry
    sys.path_importer_cache.clear()  # importlib.invalidate_caches would import more modules
    sys.argv[:] = [""]
    try:
        _entry = getattr(_build, kind)(name, late)
    finally:
        sys.argv.clear()


# A snapshot holds the whole memory, including the free part. So no file is read as a whole.
_buffer = bytearray(1 << 14)


def _copy(source, target):
    os.mkdir(target)
    for name in os.listdir(source):
        if os.path.isdir(f"{source}/{name}"):
            if name != "__pycache__":
                _copy(f"{source}/{name}", f"{target}/{name}")
        else:
            with open(f"{source}/{name}", "rb", 0) as old, open(f"{target}/{name}", "wb", 0) as new:
                while count := old.readinto(_buffer):
                    new.write(memoryview(_buffer)[:count])


for _name in ("python", "world", "bundled"):
    _copy(f"/{_name}", f"/4/{_name}")
sys.path.remove("/4")
_buffer[:] = bytes(len(_buffer))
"""


def snapshot(
    project: Project,
    program: tuple[str, str, list[Late]],
    *,
    world: str,
    exports: str,
    staged: Path,
    packages: Path | None,
    out: Path,
    report: Report,
) -> subprocess.CompletedProcess[str] | None:
    """Imports a program into the base and writes the component to `out`.

    `program` is the kind of the program, its module and its late imports. `exports` is the source
    of the class that exports it. Returns None if it must be built without the base.
    """
    if not _possible([staged, *([packages] if packages else [])]):
        return None
    base = _base(project, world, exports, report)
    if base is None:
        return None
    empty = out.with_suffix(".empty")
    empty.mkdir()
    mounts = {f"/{path.name}": str(path) for path in (base / "files").iterdir()}
    folders = [empty, staged, packages or empty, _sdk()]
    mounts |= {f"/{index}": str(folder) for index, folder in enumerate(folders)}
    order = {
        "base": str(base),
        "code": f"__import__({APP!r}).load(*{program!r})",
        "mounts": mounts,
        "rename": [f"pie:{_NAME}/run", f"pie:{project.manifest.name}/run"]
        if world == WORLD
        else None,
        "modules": str(node_modules()),
        "out": str(out),
    }
    done = run(["node", _JS / "python_snapshot.mjs", json.dumps(order)], cwd=base, report=report)
    if done.returncode == PYTHON_FAILED or (done.returncode == 0 and out.is_file()):
        return done
    report.detail(f"the prepared interpreter failed ({done.returncode}): {done.stderr.strip()}")
    out.unlink(missing_ok=True)
    return None


def _possible(folders: list[Path]) -> bool:
    """Returns whether Node is there, and whether componentize-py would add nothing to the base."""
    if not find("node") or not (node_modules() / "@bytecodealliance" / "jco").is_dir():
        return False
    special = ("*.so", "componentize-py.toml")
    return not any(True for folder in folders for name in special for _ in folder.rglob(name))


def _sdk() -> Path:
    return sdk_root() / "python" / "src"


def _base(project: Project, world: str, exports: str, report: Report) -> Path | None:
    """Returns the folder of the base and makes it if it is not in the cache."""
    source = _APP_SOURCE + exports
    scratch = Path(tempfile.mkdtemp(prefix="bakery-python-base-"))
    try:
        named = Project(project.root, replace(project.manifest, name=_NAME))
        wit = write_world(named, scratch / "wit")
        kept = cache_dir("guests/python") / _key(source, world, wit)
        if not kept.is_dir():
            with lock("python-base"):
                if not kept.is_dir():
                    report.step("Preparing the Python interpreter (once)")
                    if not _make(kept, source, world, scratch, report):
                        return None
                    _drop_old(kept.parent)
            report.step("Snapshotting the Python program")
        os.utime(kept)
        return kept
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _key(source: str, world: str, wit: Path) -> str:
    digest = hashlib.sha256()
    tools = [metadata.version("componentize-py"), node_modules().parent.name, source, world]
    digest.update(json.dumps(tools).encode())
    for folder, pattern in ((_sdk(), "*.py"), (wit, "*.wit"), (_JS, "*.mjs")):
        for path in sorted(folder.rglob(pattern)):
            if folder != _JS or path.name in _SCRIPTS:
                digest.update(f"{path.relative_to(folder)}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _make(kept: Path, source: str, world: str, scratch: Path, report: Report) -> bool:
    for unfinished in kept.parent.glob(".new-*"):  # of a build that was killed: we hold the lock
        shutil.rmtree(unfinished, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=".new-", dir=kept.parent))
    try:
        app, empty, files = scratch / "app", scratch / "empty", made / "files"
        for folder in (app, empty, files):
            folder.mkdir()
        (app / f"{APP}.py").write_text(source, encoding="utf-8")
        component = made / "component.wasm"
        paths = [app, empty, empty, _sdk(), files]
        done = componentize(paths, scratch / "wit", world, component, report=report)
        if done.returncode == 0:
            order = {"component": str(component), "modules": str(node_modules())}
            order["out"] = str(made / "node")
            command = ["node", _JS / "python_base.mjs", json.dumps(order)]
            done = run(command, cwd=made, report=report)
        if done.returncode == 0:
            os.replace(made, kept)
            return True
        report.step("The interpreter cannot be prepared; the build goes on without it")
        report.detail(done.stderr + done.stdout)
        return False
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _drop_old(folder: Path) -> None:
    """Removes the bases that were used longest ago."""
    kept = [path for path in folder.iterdir() if not path.name.startswith(".")]
    kept.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for old in kept[_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
