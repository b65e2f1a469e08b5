"""The WIT folder of one inferlet: the contract's packages plus the inferlet's own export."""

from __future__ import annotations

import shutil
from pathlib import Path

from bakery.errors import BakeryError
from bakery.project import Project
from bakery.toolchain import wit_root

WORLD = "inferlet"

# Words of the WIT language; as a package name they need a leading `%`.
_KEYWORDS = frozenset(
    "as async bool borrow char constructor enum error-context export f32 f64 flags from func future"
    " import include interface list map option own package record resource result s16 s32 s64 s8"
    " static stream string tuple type u16 u32 u64 u8 use variant with world".split()
)


def world_text(name: str) -> str:
    """The package, interface and world that an inferlet called `name` is built against."""
    package = f"%{name}" if name in _KEYWORDS else name
    return (
        f"package pie:{package};\n\n"
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

    Whatever was in `into` is replaced, so that a package removed from the contract is not left
    behind. The world is called `inferlet`.
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
