"""Cargo.toml of a project whose dependency `inferlet` is another one than ours: a path, a
repository, or a release that cargo does not replace by our version.

Such a project is built in a folder of links to its files, with a Cargo.toml that names this
checkout's SDK.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from bakery.toolchain import cache_dir

VERSION = "0.3.0"  # of this SDK

# Requirements of a single release before 1.0, and those of them that our version satisfies.
_RELEASE = re.compile(r"\s*[\^~=]?\s*0\.\d+(\.\d+)?\s*\Z")
_SATISFIED = re.compile(r"\s*[\^~=]?\s*0\.3(\.0)?\s*\Z")
_INLINE = re.compile(r"^(\s*)inferlet(\.\w+)?\s*=.*$", re.MULTILINE)
_TABLE = re.compile(r"^\[dependencies\.inferlet\][^\n]*\n(?:(?!\[)[^\n]*\n?)*", re.MULTILINE)
_DEPENDENCIES = re.compile(r"^\[dependencies\][^\n]*\n(?:(?!\[)[^\n]*\n?)*", re.MULTILINE)
_PATH = re.compile(r'(\bpath\s*=\s*)"([^"/][^"]*)"')


def names_another_sdk(settings: dict[str, Any], root: Path, sdk: Path) -> bool:
    """Whether cargo would not take this SDK for the project's dependency `inferlet`."""
    dependency = settings.get("dependencies", {}).get("inferlet")
    if isinstance(dependency, str):
        dependency = {"version": dependency}
    if not isinstance(dependency, dict):
        return False
    if dependency.keys() & {"path", "git"}:
        return "path" not in dependency or (root / dependency["path"]).resolve() != sdk.resolve()
    # This SDK has no features: everything is there.
    return bool(dependency.get("features")) or _is_another_release(dependency.get("version"))


def _is_another_release(requirement: Any) -> bool:
    if not isinstance(requirement, str):
        return False
    return bool(_RELEASE.match(requirement)) and not _SATISFIED.match(requirement)


def rewritten(text: str, root: Path, sdk: Path) -> str:
    """The text of Cargo.toml with this SDK, for a folder elsewhere."""
    ours = f"inferlet = {{ path = {json.dumps(str(sdk))} }}"
    text = _PATH.sub(lambda found: f"{found[1]}{json.dumps(str(root / found[2]))}", text)
    if _TABLE.search(text):
        return _TABLE.sub(
            lambda _: f"[dependencies.inferlet]\npath = {json.dumps(str(sdk))}\n\n", text
        )

    def replace(section: re.Match[str]) -> str:
        lines = _INLINE.sub(lambda _: "", section[0])
        head, _, rest = lines.partition("\n")
        return f"{head}\n{ours}\n{rest}"

    return _DEPENDENCIES.sub(replace, text)


def linked(root: Path, sdk: Path) -> Path:
    """A folder that is the project, but for the Cargo.toml."""
    place = hashlib.sha256(str(root).encode()).hexdigest()[:16]
    folder = cache_dir(f"guests/rust/linked/{place}")
    for entry in folder.iterdir():
        entry.unlink()
    for entry in root.iterdir():
        if entry.name not in ("Cargo.toml", "Cargo.lock", "target"):
            (folder / entry.name).symlink_to(entry)
    source = (root / "Cargo.toml").read_text(encoding="utf-8")
    (folder / "Cargo.toml").write_text(rewritten(source, root, sdk), encoding="utf-8")
    return folder
