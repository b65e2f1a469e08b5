"""TypeScript and JavaScript: esbuild bundles, componentize-js makes the component.

`bakery/js/build.mjs` does the work under Node. This module finds Node, installs the project's own
npm packages, and turns the script's errors into a BakeryError.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from bakery import wit
from bakery.errors import BakeryError
from bakery.project import Project
from bakery.report import Report
from bakery.toolchain import Missing, cache_dir, find, lock, node_modules, run, sdk_root

NAME = "javascript"
TITLE = "TypeScript"

_SCRIPT = Path(__file__).resolve().parents[3] / "js" / "build.mjs"
_SETUP = "make setup"
_ENTRIES = [
    f"{folder}{stem}{suffix}"
    for folder in ("", "src/")
    for stem in ("index", "main", "app")
    for suffix in (".ts", ".mts", ".js", ".mjs")
]

# The names under which a program imports the SDK.
_SDK_NAMES = ("inferlet", "@pie-project/inferlet")
# The keys of package.json that npm reads to install the packages that a program imports.
_INSTALLED = ("dependencies", "optionalDependencies", "peerDependencies", "overrides")


def detects(root: Path) -> bool:
    return (root / "package.json").is_file() or any((root / name).is_file() for name in _ENTRIES)


def missing() -> list[Missing]:
    absent = []
    if not find("node"):
        absent.append(Missing("node", "it runs the build", _SETUP))
    elif not (node_modules() / ".package-lock.json").is_file():
        absent.append(
            Missing("componentize-js", "the npm packages of bakery/js are not installed", _SETUP)
        )
    return absent


def build(project: Project, out: Path, *, debug: bool, report: Report) -> None:
    packages = _install_dependencies(project.root, report)
    report.step("Bundling and making the component")
    world = wit.write_world(project, out.parent / "wit", files=True)
    sdk = sdk_root() / "javascript"
    order = {
        "project": str(project.root),
        "entry": project.entry.relative_to(project.root).as_posix() if project.entry else None,
        "wit": str(world),
        "sdk": str(sdk.resolve()),
        "modules": str(node_modules()),
        "packages": str(packages) if packages else None,
        "sdkNames": _sdk_names(project.root),
        "out": str(out),
        "debug": debug,
    }
    # V8 collects garbage each time a tool of the build grows its memory: with threads, that takes
    # longer than the rest of the build.
    node = ["node", "--single-threaded-gc", _SCRIPT]
    done = run([*node, json.dumps(order)], cwd=out.parent, report=report)
    if done.returncode != 0:
        raise _failure(project.root, done.stdout, done.stderr)
    _link_types(project.root, sdk, report)


def _sdk_names(root: Path) -> list[str]:
    """The names under which the program may import the SDK: its own, and the aliases that
    package.json gives it, such as `"pie": "npm:@pie-project/inferlet@^0.3"`."""
    try:
        settings = json.loads((root / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        settings = {}  # build.mjs reports what is wrong with it
    aliases = [
        name
        for section in (*_INSTALLED, "devDependencies")
        for name, asked in _table(settings, section).items()
        if _is_sdk(name, asked)
    ]
    return list(dict.fromkeys([*_SDK_NAMES, *aliases]))


def _is_sdk(name: str, asked: Any) -> bool:
    if name in _SDK_NAMES:
        return True
    if not isinstance(asked, str) or not asked.startswith("npm:"):
        return False
    package = asked.removeprefix("npm:")
    version = package.find("@", 1)  # the first one may begin a scope
    return (package if version < 0 else package[:version]) in _SDK_NAMES


def _table(settings: Any, section: str) -> dict[str, Any]:
    table = settings.get(section) if isinstance(settings, dict) else None
    return table if isinstance(table, dict) else {}


def _failure(root: Path, stdout: str, stderr: str) -> BakeryError:
    """build.mjs prints errors of the user's code as JSON; any other failure is a bug of bakery."""
    try:
        fault = json.loads(stdout.strip().splitlines()[-1])
        message = fault["message"]
    except (IndexError, ValueError, TypeError, KeyError):
        return BakeryError(
            f"the build script failed:\n{(stderr or stdout).strip()}",
            hint="this is a bug in bakery or its tools, not in your code",
        )
    where = fault.get("where")
    return BakeryError(message, where=str(root / where) if where else None, hint=fault.get("hint"))


def _install_dependencies(root: Path, report: Report) -> Path | None:
    """Returns a node_modules folder with the npm packages of the project, from the cache if
    possible. None if the project has no dependencies, or has installed them itself."""
    manifest = root / "package.json"
    try:
        wanted = _without_sdk(json.loads(manifest.read_text(encoding="utf-8")), root)
    except (OSError, ValueError):
        return None  # build.mjs reports the fault in it
    packages = wanted.get("dependencies", {})
    if all((root / "node_modules" / name).exists() for name in packages):
        return None
    if not find("npm"):
        raise BakeryError(
            f"npm is missing, and {manifest} has dependencies that are not installed",
            hint="install npm with\nsudo apt-get install -y npm",
        )
    pinned = root / "package-lock.json"
    digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode())
    if pinned.is_file():
        digest.update(pinned.read_bytes())
    target = cache_dir("js-packages") / digest.hexdigest()[:16]
    with lock(f"js-packages-{target.name}"):
        if not target.is_dir():
            report.step(f"Installing {', '.join(packages)}")
            scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
            try:
                _npm_install(root, wanted, scratch, report)
                os.replace(scratch, target)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return (target / "node_modules").resolve()


def _without_sdk(settings: Any, root: Path) -> dict[str, Any]:
    """A package.json for a folder elsewhere, without the SDK, which bakery adds itself."""
    made: dict[str, Any] = {"private": True}
    for section in _INSTALLED:
        if isinstance(settings, dict) and isinstance(settings.get(section), dict):
            made[section] = {
                name: _from_folder(asked, root)
                for name, asked in _table(settings, section).items()
                if not _is_sdk(name, asked)
            }
    return made


def _from_folder(asked: Any, root: Path) -> Any:
    """The dependencies of package.json. A relative path begins at `root`."""
    if not isinstance(asked, str) or not asked.startswith(("file:", "link:", "./", "../")):
        return asked
    path = asked.removeprefix("file:").removeprefix("link:")
    return asked if path.startswith("~") else f"file:{os.path.normpath(root / path)}"


def _npm_install(root: Path, wanted: dict[str, Any], folder: Path, report: Report) -> None:
    """Installs the packages into `folder`, in the versions and by the settings of the project."""
    (folder / "package.json").write_text(json.dumps(wanted), encoding="utf-8")
    for name in ("package-lock.json", ".npmrc"):
        if (root / name).is_file():
            shutil.copy(root / name, folder / name)
    done = run(["npm", "install", "--no-audit", "--no-fund"], cwd=folder, report=report)
    (folder / ".npmrc").unlink(missing_ok=True)  # it may hold a password
    if done.returncode != 0:
        raise BakeryError(
            f"npm could not install the dependencies:\n{_last_lines(done.stderr)}",
            where=str(root / "package.json"),
            hint="check the dependencies; the first build of a project needs a network",
        )


def _link_types(root: Path, sdk: Path, report: Report) -> None:
    """Lets editors and `tsc` find the SDK's types, in projects that have a tsconfig.json."""
    if not (root / "tsconfig.json").is_file() or sdk.resolve().parents[1] in root.parents:
        return
    package = _typed_package(sdk.resolve(), report)
    for name in _sdk_names(root):
        link = root / "node_modules" / name
        try:
            link.parent.mkdir(parents=True, exist_ok=True)
            if link.is_symlink():
                link.unlink()
            if not link.exists():
                link.symlink_to(package)
        except OSError:
            pass  # only editors need the link; the component is built


def _typed_package(sdk: Path, report: Report) -> Path:
    """A package like the SDK's that has its declarations too. They are made once: a program's own
    settings of `tsc` do not fit the SDK's sources."""
    digest = hashlib.sha256()
    sources = [*sdk.glob("*.json"), *sdk.glob("src/**/*.ts"), *sdk.glob("generated/**/*.ts")]
    for path in sorted(sources):
        digest.update(f"{path}\0".encode() + path.read_bytes())
    made = cache_dir("js-types") / digest.hexdigest()[:16]
    with lock(f"js-types-{made.name}"):
        if made.is_dir():
            return made
        scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=made.parent))
        try:
            tsc = node_modules() / ".bin" / "tsc"
            command = [sdk / "scripts" / "build_types.sh", scratch / "types", tsc]
            if run(command, cwd=scratch, report=report).returncode != 0:
                return sdk
            shutil.copy(sdk / "package.json", scratch)
            for folder in ("src", "generated"):
                (scratch / folder).symlink_to(sdk / folder)
            os.replace(scratch, made)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return made


def _last_lines(text: str, count: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-count:])
