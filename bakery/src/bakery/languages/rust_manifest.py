"""Cargo.toml of a project that cargo cannot build as it is: its dependency `inferlet` is another
one than ours (a path, a repository, or a release that cargo does not replace by our version), it
inherits from a workspace that is not there, or a crate that it names by its path does so.

Such a project is built in a folder of links to its files, with a Cargo.toml that names this
checkout's SDK and belongs to no workspace. What the project inherits from its workspace is written
out in it. Crates beside it that cannot be built as they are get such folders too: one program has
one SDK.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bakery.errors import BakeryError
from bakery.toolchain import cache_dir

VERSION = "0.3.0"  # of this SDK

# Requirements of a single release before 1.0, and those of them that our version satisfies.
_RELEASE = re.compile(r"\s*[\^~=]?\s*0\.\d+(\.\d+)?\s*\Z")
_SATISFIED = re.compile(r"\s*[\^~=]?\s*0\.3(\.0)?\s*\Z")

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")

_SDK = "inferlet"
_KINDS = ("dependencies", "dev-dependencies", "build-dependencies")
_OF_ROOT = ("patch", "profile", "replace")  # what cargo reads of a workspace's root alone
_FILES = ("readme", "license-file")  # keys of [package] that name files, which no build reads


@dataclass(frozen=True)
class Workspace:
    """A Cargo.toml with [workspace]."""

    root: Path
    settings: dict[str, Any]

    def shared(self, section: str) -> dict[str, Any]:
        """The keys that members inherit from `[workspace.SECTION]`."""
        return _table(_table(self.settings.get("workspace")).get(section))


def workspace_of(settings: dict[str, Any], root: Path) -> Workspace | None:
    """The workspace that the project in `root` belongs to."""
    if "workspace" in settings:
        return Workspace(root, settings)
    named = _table(settings.get("package")).get("workspace")
    folders = [root / named] if isinstance(named, str) else root.parents
    for folder in folders:
        try:
            found = tomllib.loads((folder / "Cargo.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if "workspace" in found:
            return Workspace(folder.resolve(), found)
    return None


def profiles(settings: dict[str, Any], root: Path) -> dict[str, Any]:
    """The profiles of the project, which are those of its workspace."""
    workspace = workspace_of(settings, root)
    return _table((workspace.settings if workspace else settings).get("profile"))


def needs_copy(
    settings: dict[str, Any], root: Path, sdk: Path, seen: frozenset[Path] = frozenset()
) -> bool:
    """Whether cargo cannot build the project where it is. `seen` are the crates that are asked
    about already: a crate may name itself among its dev-dependencies."""
    orphaned = _inherits_anything(settings) and workspace_of(settings, root) is None
    if orphaned or names_another_sdk(settings, root, sdk):
        return True
    seen |= {root.resolve()}
    return any(
        needs_copy(beside, folder, sdk, seen)
        for folder, beside in _crates_beside(settings, root)
        if folder not in seen
    )


def _crates_beside(settings: dict[str, Any], root: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The crates that the project names by their paths, without the SDK."""
    workspace = workspace_of(settings, root)
    for kind, table in _dependency_tables(settings):
        for name, dependency in table.items():
            if kind == "dev-dependencies" or _is_sdk(name, dependency):
                continue
            folder = root
            if _inherits(dependency) and workspace:
                dependency, folder = workspace.shared("dependencies").get(name), workspace.root
            if (found := _crate_at(dependency, folder)) is not None:
                yield found


def _crate_at(dependency: Any, folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The crate that a dependency names by a path that begins at `folder`."""
    path = _table(dependency).get("path")
    if not isinstance(path, str):
        return None
    try:
        place = (folder / path).resolve()
        return place, tomllib.loads((place / "Cargo.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # cargo reports what is wrong with it


def _is_sdk(name: str, dependency: Any) -> bool:
    return _SDK in (name, _table(dependency).get("package"))


def sdk_features(settings: dict[str, Any], root: Path) -> list[str]:
    """The features of the SDK that the project needs, as cargo's --features takes them.

    Types have the JSON Schema of one version of schemars, and `main` runs inside the reactor of one
    version of wstd: those that the project depends on."""
    crates = [(root, settings), *_crates_beside(settings, root)]
    features: list[str] = []
    for package, takes_newer, feature in _NEWER:
        asked = next(filter(None, (_required(package, own, at) for at, own in crates)), "")
        if takes_newer(asked):
            features.append(feature)
    names = [
        name
        for kind, table in _dependency_tables(settings)
        for name, dependency in table.items()
        if kind == "dependencies" and _is_sdk(name, dependency)
    ]
    return [f"{name}/{feature}" for name in dict.fromkeys(names) for feature in features]


def _required(wanted: str, settings: dict[str, Any], root: Path) -> str | None:
    """The requirement on the version of a package."""
    for kind, table in _dependency_tables(settings):
        for name, dependency in table.items():
            package = _table(dependency).get("package", name)
            if kind != "dependencies" or package != wanted:
                continue
            if _inherits(dependency):
                dependency = _inherited(name, dependency, workspace_of(settings, root))
            version = dependency if isinstance(dependency, str) else None
            version = version or _table(dependency).get("version")
            if isinstance(version, str):
                return version
    return None


def _takes_schemars_1(requirement: str) -> bool:
    """Whether cargo takes a version from 1.0 on, where it has the choice."""
    return _takes(requirement, r"[1-9]", below=r"<\s*1|<=?\s*0")


def _takes_wstd_0_6(requirement: str) -> bool:
    """Whether cargo accepts a version from 0.6 on, if it may choose."""
    return _takes(requirement, r"0\.([6-9]|\d\d)", below=r"<\s*0\.6(\.0)?$|<=?\s*0\.[0-5]\b")


def _takes(requirement: str, version: str, *, below: str) -> bool:
    bounds = [bound.strip() for bound in requirement.split(",")]
    if any(re.match(below, bound) for bound in bounds):
        return False
    return any(re.match(rf"[\^~=]?\s*{version}|[*>]", bound) for bound in bounds)


# A package that the SDK takes in two versions, whether a requirement takes the newer one, and the
# SDK's feature for it.
_NEWER = [
    ("schemars", _takes_schemars_1, "schemars-1"),
    ("wstd", _takes_wstd_0_6, "wstd-0-6"),
]


def names_another_sdk(settings: dict[str, Any], root: Path, sdk: Path) -> bool:
    """Whether cargo would use another crate than this SDK for the dependency `inferlet`."""
    named = [
        dependency
        for _, table in _dependency_tables(settings)
        for name, dependency in table.items()
        if _is_sdk(name, dependency)
    ]
    workspace = workspace_of(settings, root) if any(map(_inherits, named)) else None
    return any(_is_another_sdk(dependency, root, workspace, sdk) for dependency in named)


def _is_another_sdk(dependency: Any, root: Path, workspace: Workspace | None, sdk: Path) -> bool:
    if _inherits(dependency):
        shared = workspace.shared("dependencies").get(_SDK) if workspace else None
        if workspace is None or shared is None or dependency.get("features"):
            return True
        dependency, root = shared, workspace.root
    if isinstance(dependency, str):
        dependency = {"version": dependency}
    if not isinstance(dependency, dict):
        return False
    if dependency.keys() & {"path", "git"}:
        path = dependency.get("path")
        return not isinstance(path, str) or (root / path).resolve() != sdk.resolve()
    # Programs name no features of this SDK: bakery turns on what they need.
    return bool(dependency.get("features")) or _is_another_release(dependency.get("version"))


def _is_another_release(requirement: Any) -> bool:
    if not isinstance(requirement, str):
        return False
    return bool(_RELEASE.match(requirement)) and not _SATISFIED.match(requirement)


def standalone(
    settings: dict[str, Any],
    root: Path,
    sdk: Path,
    version: str,
    seen: frozenset[Path] = frozenset(),
) -> tuple[dict[str, Any], list[str]]:
    """The settings with this SDK and without a workspace, for a folder elsewhere; and notices about
    what had to be assumed. `version` is the inferlet's, for a package that inherits its own. `seen`
    are the crates that are being linked already."""
    workspace = workspace_of(settings, root)
    made = _from_folder(settings, root)
    notices: list[str] = []
    if isinstance(made.get("package"), dict):
        made["package"] = _package(made["package"], workspace, root, version, notices)
    for kind, table in _dependency_tables(made):
        for name, dependency in list(table.items()):
            if _is_sdk(name, dependency):
                table[name] = {"path": str(sdk)} if name == _SDK else _renamed(dependency, sdk)
            elif not _inherits(dependency):
                continue
            elif (found := _inherited(name, dependency, workspace)) is not None:
                table[name] = found
            elif kind == "dev-dependencies":
                del table[name]  # tests and examples are not built here
            else:
                raise _absent(name, dependency, workspace, root)
    _link_crates_beside(made, sdk, seen | {root.resolve()})
    if _inherits(made.get("lints")):
        made["lints"] = workspace.shared("lints") if workspace else {}
    if workspace and workspace.root != root.resolve():
        for key in _OF_ROOT:
            made.pop(key, None)
            if key in workspace.settings:
                made[key] = _from_folder(workspace.settings[key], workspace.root)
    for crates in _table(made.get("patch")).values():
        _table(crates).pop(_SDK, None)
    # The copy has a workspace of its own, so it does not belong to a workspace around the cache.
    resolver = _table(workspace.settings.get("workspace")).get("resolver") if workspace else None
    made["workspace"] = {"resolver": resolver} if resolver else {}
    return made, notices


def _renamed(dependency: dict[str, Any], sdk: Path) -> dict[str, Any]:
    """This SDK under the name that the project gives it."""
    return {"package": dependency.get("package", _SDK), "path": str(sdk)}


def _link_crates_beside(made: dict[str, Any], sdk: Path, seen: frozenset[Path]) -> None:
    """Replaces crates that would bring another SDK with them."""
    for kind, table in _dependency_tables(made):
        for name, dependency in table.items():
            if kind == "dev-dependencies" or _is_sdk(name, dependency):
                continue
            found = _crate_at(dependency, Path("/"))  # the paths are absolute here
            if found is None or found[0] in seen or not needs_copy(found[1], found[0], sdk, seen):
                continue
            folder, _ = linked(found[1], found[0], sdk, "0.0.0", seen)
            table[name] = {**dependency, "path": str(folder)}


def _package(
    package: dict[str, Any],
    workspace: Workspace | None,
    root: Path,
    version: str,
    notices: list[str],
) -> dict[str, Any]:
    """[package], with the keys that it inherits."""
    shared = workspace.shared("package") if workspace else {}
    assumed = {"version": version, "edition": "2021"}
    made: dict[str, Any] = {}
    for key, value in package.items():
        if key == "workspace":
            continue
        if not _inherits(value):
            made[key] = value
        elif key in _FILES:
            continue
        elif key in shared:
            made[key] = shared[key]
        elif key in assumed:
            made[key] = assumed[key]
            notices.append(
                f"{root / 'Cargo.toml'}: {key} is inherited, but {_gap(workspace, 'package', key)};"
                f' {key} = "{assumed[key]}" is used'
            )
        else:
            notices.append(
                f"{root / 'Cargo.toml'}: {key} is inherited, but {_gap(workspace, 'package', key)};"
                " it is left out"
            )
    return made


def _inherited(
    name: str, dependency: dict[str, Any], workspace: Workspace | None
) -> dict[str, Any] | None:
    """A dependency as its workspace has it, with what the member adds."""
    shared = workspace.shared("dependencies").get(name) if workspace else None
    if workspace is None or shared is None:
        return None
    made = {"version": shared}
    if isinstance(shared, dict):
        made = _from_folder(shared, workspace.root)
    features = [*made.get("features", []), *dependency.get("features", [])]
    if features:
        made["features"] = features
    if "optional" in dependency:
        made["optional"] = dependency["optional"]
    if dependency.get("default-features") is True:  # a member can add them, but not remove them
        made["default-features"] = True
    return made


def _absent(
    name: str, dependency: dict[str, Any], workspace: Workspace | None, root: Path
) -> BakeryError:
    features = dependency.get("features")
    instead = f'{name} = "1.0"'
    if features:
        instead = f'{name} = {{ version = "1.0", features = {json.dumps(features)} }}'
    return BakeryError(
        f"the dependency {name} is inherited, but {_gap(workspace, 'dependencies', name)}",
        where=str(root / "Cargo.toml"),
        hint=f"write the version that you need instead of `workspace = true`, such as\n{instead}",
    )


def _gap(workspace: Workspace | None, section: str, key: str) -> str:
    """Says why a key cannot be inherited."""
    if workspace is None:
        return "no folder above has a Cargo.toml with [workspace]"
    return f"[workspace.{section}] of {workspace.root / 'Cargo.toml'} has no {key}"


def _inherits(value: Any) -> bool:
    return isinstance(value, dict) and value.get("workspace") is True


def _inherits_anything(settings: dict[str, Any]) -> bool:
    values = [settings.get("lints"), *_table(settings.get("package")).values()]
    for _, table in _dependency_tables(settings):
        values += table.values()
    return any(map(_inherits, values))


def _dependency_tables(settings: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables of dependencies, for all targets and for single ones, each with its kind."""
    for part in (settings, *_table(settings.get("target")).values()):
        for kind in _KINDS:
            if isinstance(part, dict) and isinstance(part.get(kind), dict):
                yield kind, part[kind]


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _from_folder(value: Any, folder: Path, *, names: bool = False) -> Any:
    """A copy in which relative paths begin at `folder`. In a table of dependencies, `path` would
    be the name of a crate."""
    if isinstance(value, list):
        return [_from_folder(item, folder) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: str(folder / item)
        if key == "path" and isinstance(item, str) and not names
        else _from_folder(item, folder, names=key in _KINDS)
        for key, item in value.items()
    }


def as_toml(settings: dict[str, Any]) -> str:
    """The text of a Cargo.toml."""
    plain = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    lines = _as_lines(plain)
    for key, table in settings.items():
        if key not in plain:
            lines += ["", f"[{_as_key(key)}]", *_as_lines(table)]
    return "\n".join(lines) + "\n"


def _as_lines(table: dict[str, Any]) -> list[str]:
    return [f"{_as_key(key)} = {_as_value(value)}" for key, value in table.items()]


def _as_key(key: str) -> str:
    return key if _BARE_KEY.match(key) else json.dumps(key)


def _as_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(_as_lines(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_as_value, value)) + "]"
    if isinstance(value, (str, bool)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)  # a number or a time


def linked(
    settings: dict[str, Any],
    root: Path,
    sdk: Path,
    version: str,
    seen: frozenset[Path] = frozenset(),
) -> tuple[Path, list[str]]:
    """A folder like the project, except for its Cargo.toml; and the notices of `standalone`."""
    made, notices = standalone(settings, root, sdk, version, seen)
    place = hashlib.sha256(str(root).encode()).hexdigest()[:16]
    folder = cache_dir(f"guests/rust/linked/{place}")
    for entry in folder.iterdir():
        entry.unlink()
    for entry in root.iterdir():
        if entry.name not in ("Cargo.toml", "Cargo.lock", "target"):
            (folder / entry.name).symlink_to(entry)
    (folder / "Cargo.toml").write_text(as_toml(made), encoding="utf-8")
    return folder, notices
