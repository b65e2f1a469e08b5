#!/usr/bin/env python3
"""Prints the licences of everything that is linked into `pie` and its inferlets.

Rust crates are taken from the dependency graphs that cargo resolved, with the licence files that
their authors published. Debian packages are taken from the copyright files that they install.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CRATES = ("bridge", "sdk/rust")  # the shipped inferlets use what the SDK uses
# The packages of scripts/setup.sh whose code ends in the program, as headers or as libraries.
DEBIAN = (
    *("libcli11-dev", "nlohmann-json3-dev", "libtomlplusplus-dev", "libfmt-dev", "libboost-dev"),
    *("libsqlite3-dev", "libssl-dev", "libstdc++6", "libgcc-s1"),
)
RULE = "=" * 100


@dataclass(frozen=True, order=True)
class Crate:
    name: str
    version: str
    licence: str
    folder: Path


def crates_of(manifest: Path) -> set[Crate]:
    """The crates that are linked: what is needed to build or to test only does not count."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--manifest-path", manifest]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    members = metadata["workspace_members"]
    linked, waiting = set(members), list(members)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            kinds = {kind["kind"] for kind in dependency["dep_kinds"]}
            if None in kinds and dependency["pkg"] not in linked:
                linked.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    return {
        Crate(
            package["name"],
            package["version"],
            package["license"] or "see its licence file",
            Path(package["manifest_path"]).parent,
        )
        for package in (packages[identity] for identity in linked)
        if package["source"]  # our own crates are under the LICENSE of the project
    }


def texts_of(crate: Crate) -> list[str]:
    """The licence files of a crate."""
    names = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")
    files = [path for path in crate.folder.iterdir() if path.name.upper().startswith(names)]
    return [path.read_text(errors="replace").strip() for path in sorted(files) if path.is_file()]


def main() -> int:
    crates = sorted(set().union(*(crates_of(ROOT / folder / "Cargo.toml") for folder in CRATES)))
    print("Software that is linked into pie and into the inferlets shipped with it\n")
    for crate in crates:
        print(f"  {crate.name} {crate.version}: {crate.licence}")
    for package in DEBIAN:
        print(f"  {package} (Debian): see below")

    users = defaultdict(list)
    for crate in crates:
        for text in texts_of(crate):
            users[text].append(f"{crate.name} {crate.version}")
    for package in DEBIAN:
        notice = Path("/usr/share/doc", package, "copyright")
        if not notice.is_file():
            print(f"the copyright file of {package} is missing", file=sys.stderr)
            return 1
        users[notice.read_text(errors="replace").strip()].append(package)
    for text, names in sorted(users.items(), key=lambda item: item[1]):
        print(f"\n{RULE}\n{', '.join(names)}\n{RULE}\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
