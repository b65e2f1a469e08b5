"""The WIT folder of one inferlet: the contract, the parts of WASI, and the inferlet's worlds."""

from __future__ import annotations

import shutil
from pathlib import Path

from bakery.errors import BakeryError
from bakery.project import Project
from bakery.toolchain import sdk_root, wit_root

# The world of an inferlet that runs once, and of one that answers HTTP requests.
WORLD = "inferlet"
HTTP_WORLD = "http-inferlet"

# The export of an inferlet that answers HTTP requests.
HANDLER = "wasi:http/incoming-handler@0.2.12"


def world_text(name: str, *, files: bool = False) -> str:
    """Returns the package, interface and worlds that the inferlet `name` is built against."""
    imports = "  include pie:inferlet/imports;\n  include pie:wasi/client;\n"
    if files:
        imports += "  include pie:wasi/files;\n"
    return (
        f"package pie:%{name};\n\n"  # `%` allows names that are keywords of WIT, such as `list`
        "interface run {\n"
        "  run: func(input: string) -> result<string, string>;\n"
        "}\n\n"
        f"world {WORLD} {{\n{imports}  export run;\n}}\n\n"
        f"world {HTTP_WORLD} {{\n{imports}  export {HANDLER};\n}}\n"
    )


def write_world(project: Project, into: Path, *, files: bool = False) -> Path:
    """Makes `into` a complete WIT folder for this inferlet and returns it.

    The previous contents of `into` are removed, so that no package remains that the contract no
    longer has. `files` adds WASI's interfaces of files, for an SDK that calls them by itself.
    """
    contract, wasi = wit_root(), sdk_root() / "wasi"
    for needed in (contract / "world.wit", wasi / "world.wit"):
        if not needed.is_file():
            raise BakeryError(
                f"the contract is missing: {needed} does not exist",
                hint="set PIE_SDK to the sdk folder of a complete checkout, or unset it",
            )
    if into.exists():
        shutil.rmtree(into)
    shutil.copytree(contract / "deps", into / "deps")
    for package in (wasi / "deps").iterdir():  # these are whole; the contract has parts of them
        shutil.rmtree(into / "deps" / package.name, ignore_errors=True)
        shutil.copytree(package, into / "deps" / package.name)
    for folder, name in ((contract, "inferlet"), (wasi, "wasi")):
        (into / "deps" / name).mkdir()
        for source in folder.glob("*.wit"):
            shutil.copy(source, into / "deps" / name / source.name)
    world = world_text(project.manifest.name, files=files)
    (into / "world.wit").write_text(world, encoding="utf-8")
    return into
