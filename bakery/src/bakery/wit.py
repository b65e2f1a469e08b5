"""The WIT folder of one inferlet: the contract's packages plus the inferlet's own export."""

from __future__ import annotations

import shutil
from pathlib import Path

from bakery.errors import BakeryError
from bakery.project import Project
from bakery.toolchain import wit_root

WORLD = "inferlet"


def world_text(name: str) -> str:
    """Returns the package, interface and world that the inferlet `name` is built against."""
    return (
        f"package pie:%{name};\n\n"  # `%` allows names that are keywords of WIT, such as `list`
        "interface run {\n"
        "  run: func(input: string) -> result<string, string>;\n"
        "}\n\n"
        f"world {WORLD} {{\n"
        "  include pie:inferlet/imports;\n"
        "  export run;\n"
        "}\n"
    )


def write_world(project: Project, into: Path) -> Path:
    """Makes `into` a complete WIT folder for this inferlet and returns it.

    The previous contents of `into` are removed, so that no package remains that the contract no
    longer has. The world is called `inferlet`.
    """
    contract = wit_root()
    if not (contract / "world.wit").is_file():
        raise BakeryError(
            f"the contract is missing: {contract / 'world.wit'} does not exist",
            hint="set PIE_SDK to the sdk folder of a complete checkout, or unset it",
        )
    if into.exists():
        shutil.rmtree(into)
    shutil.copytree(contract / "deps", into / "deps")
    imports = into / "deps" / "inferlet"
    imports.mkdir()
    for source in contract.glob("*.wit"):
        shutil.copy(source, imports / source.name)
    (into / "world.wit").write_text(world_text(project.manifest.name), encoding="utf-8")
    return into
