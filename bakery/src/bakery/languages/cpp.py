"""C++: zig's clang compiles and links, jco makes the component.

`ziglang` (a wheel in bakery's environment) contains clang, lld, libc++ and wasi-libc. The SDK is
compiled once into a static library in the cache, under a key of its sources and the compiler. A
build then compiles only the user's files. zig keeps its own cache of libc++ and of every object.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from bakery import wit
from bakery.errors import BakeryError
from bakery.languages.cpp_lines import lines_section, without_debug_information
from bakery.project import Project
from bakery.report import Report
from bakery.toolchain import Missing, cache_dir, find, lock, node_modules, run, sdk_root

NAME = "cpp"
TITLE = "C++"

_SCRIPT = Path(__file__).resolve().parents[3] / "js" / "component.mjs"
_SUFFIXES = {".cpp", ".cc", ".cxx"}
_SHOWN_ERRORS = 3
_SHOWN_LINES = 8  # of each error
# libc++'s checks turn a wrong index or an empty optional into an error instead of undefined
# behaviour. zig predefines both macros, the second one so that failed checks are ignored.
_CHECKED = [
    "-U_LIBCPP_HARDENING_MODE",
    "-U_LIBCPP_ASSERTION_SEMANTIC_DEFAULT",
    "-D_LIBCPP_ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_ENFORCE",
]
# zig's libc++ for WASI has no files. wasi-libc does, so that libc++'s own sources work.
_FILES = ["-U_LIBCPP_HAS_FILESYSTEM", "-D_LIBCPP_HAS_FILESYSTEM=1"]
_COMPILE = [
    "-target", "wasm32-wasi", "-std=c++23", "-fno-exceptions", "-fno-sanitize=undefined",
    "-fno-color-diagnostics", *_CHECKED, *_FILES,
]  # fmt: skip
# The sources of libc++ that zig leaves out, and how they are compiled. wasi-libc is a musl without
# `copy_file_range`.
_LIBRARY = ["-D_LIBCPP_BUILDING_LIBRARY", "-U_LIBCPP_HAS_MUSL_LIBC", "-D_LIBCPP_HAS_MUSL_LIBC=0"]
_LIBRARY_SOURCES = (
    "directory_entry", "directory_iterator", "filesystem_clock", "filesystem_error", "operations",
    "path",
)  # fmt: skip
_MODE = {
    False: ["-Os", "-DNDEBUG", "-D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_FAST"],
    True: ["-O0", "-g", "-D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_DEBUG"],
}
_LINK = ["-mexec-model=reactor", "-Wl,--gc-sections"]
# Without debug information, zig leaves out the names of functions too. The backtraces of traps need
# the names, and cpp_lines.py takes the lines of the user's sources from the rest.
_NAMES = "-g1"
_STACK_BYTES = 1 << 20  # lld's default of 64 KiB is too little for recursion

_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):\d+: (?:fatal )?(?P<kind>error|warning|note): "
)
_SUMMARY = re.compile(r"\d+ (?:warnings?|errors?)(?: and \d+ errors?)? generated\.")
_ENTRY_POINT = re.compile(rb"^\s*PIE_(?:MAIN|HTTP)\s*\(", re.MULTILINE)
_UNDEFINED = re.compile(r"undefined symbol: (?P<symbol>.+)$", re.MULTILINE)


def detects(root: Path) -> bool:
    """A C++ project has C++ sources, or a CMakeLists.txt (for editors; bakery does not run it)."""
    return (root / "CMakeLists.txt").is_file() or bool(_sources(root))


def missing() -> list[Missing]:
    """Looks for the compiler, Node and jco."""
    absent = []
    if importlib.util.find_spec("ziglang") is None:
        absent.append(
            Missing("ziglang", "it compiles C++; bakery's environment lacks it", "make setup")
        )
    if not find("node"):
        absent.append(Missing("node", "it runs jco, which makes the component", "make setup"))
    elif not (node_modules() / "@bytecodealliance" / "jco").is_dir():
        absent.append(
            Missing("jco", "it makes the component; npm packages of bakery/js", "make setup")
        )
    return absent


def build(project: Project, out: Path, *, debug: bool, report: Report) -> None:
    """Writes the component to `out`, or raises a BakeryError that names the user's line."""
    sources = _sources_of(project)
    if not sources:
        raise BakeryError(
            f"{project.root} has no C++ sources",
            hint="put a main.cpp beside Pie.toml or into src/",
        )
    library = _sdk_library(debug=debug, report=report)
    report.step(f"Compiling {', '.join(str(path) for path in sources)}")
    core = out.with_suffix(".core.wasm")
    command = [
        *_compiler(),
        *_MODE[debug],
        *_LINK,
        *([] if debug else [_NAMES]),
        f"-Wl,-z,stack-size={_STACK_BYTES}",
        f'-DPIE_PACKAGE="{project.manifest.name}"',
        "-Wall",
        "-Wextra",
        *_sdk_includes(),
        *_project_includes(project.root),
        *sources,
        library,
        "-o",
        core,
    ]  # fmt: skip
    done = run(command, cwd=project.root, env=_zig_environment(), report=report)
    if done.returncode != 0:
        raise _compile_failure(project.root, done.stderr or done.stdout)
    compiled = core.read_bytes()
    if not debug:
        core.write_bytes(without_debug_information(compiled))
    report.step("Making the component")
    _componentize(project, core, out, report)
    with out.open("ab") as component:
        component.write(lines_section(compiled, project.root))


def _sources(root: Path) -> list[Path]:
    """The sources beside Pie.toml and all sources under src/, relative to the root."""
    found = [*root.glob("*"), *root.glob("src/**/*")]
    return sorted(
        path.relative_to(root) for path in found if path.suffix in _SUFFIXES and path.is_file()
    )


def _sources_of(project: Project) -> list[Path]:
    """The sources of the program. If the user named one, other programs beside it are left out."""
    if project.entry is None:
        return _sources(project.root)
    entry = project.entry.relative_to(project.root)
    if project.is_one_file:
        return [entry]
    return [entry] + [
        path
        for path in _sources(project.root)
        if path != entry and not _ENTRY_POINT.search((project.root / path).read_bytes())
    ]


def _compiler() -> list[str]:
    return [sys.executable, "-m", "ziglang", "c++", *_COMPILE, *_short_paths()]


def _libcxx() -> Path | None:
    """The folder of libc++, or None if ziglang is not installed."""
    ziglang = importlib.util.find_spec("ziglang")
    if ziglang is None or not ziglang.origin:
        return None
    return Path(ziglang.origin).resolve().parent / "lib" / "libcxx"


def _short_paths() -> list[str]:
    """Makes failed checks name files of the SDK and libc++ without the paths of this machine."""
    folders = {_sdk(): "sdk/cpp"}
    if libcxx := _libcxx():
        folders[libcxx / "include"] = "libc++"
    return [f"-ffile-prefix-map={folder}={short}" for folder, short in folders.items()]


def _sdk() -> Path:
    return sdk_root().resolve() / "cpp"


def _sdk_includes() -> list[str]:
    return ["-isystem", str(_sdk() / "include"), "-isystem", str(_sdk() / "generated")]


def _project_includes(root: Path) -> list[str]:
    folders = [root, root / "include", root / "src"]
    return [f"-I{folder}" for folder in folders if folder.is_dir()]


def _zig_environment() -> dict[str, str | None]:
    return {
        "ZIG_GLOBAL_CACHE_DIR": str(cache_dir("guests/cpp/zig")),
        "ZIG_LOCAL_CACHE_DIR": str(cache_dir("guests/cpp/objects")),
    }


# --- the SDK -------------------------------------------------------------------------------------


def _sdk_library(*, debug: bool, report: Report) -> Path:
    """Returns the SDK and the bindings as a static library and compiles it if it is not cached."""
    kept = cache_dir("guests/cpp/sdk") / f"libinferlet-{_sdk_key(debug=debug)}.a"
    if kept.is_file():
        return kept
    with lock("cpp-sdk"):
        if not kept.is_file():
            report.step("Compiling the C++ SDK (once; with libc++ it takes a minute or two)")
            _compile_sdk(kept, debug=debug, report=report)
    return kept


def _sdk_key(*, debug: bool) -> str:
    digest = hashlib.sha256()
    tools = [metadata.version("ziglang"), _COMPILE, _LIBRARY, _LIBRARY_SOURCES, _MODE[debug]]
    digest.update(json.dumps(tools).encode())
    for folder in ("include", "src", "generated"):
        for path in sorted((_sdk() / folder).rglob("*")):
            if path.is_file():
                digest.update(f"{path.relative_to(_sdk())}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compile_sdk(into: Path, *, debug: bool, report: Report) -> None:
    sources = sorted([*(_sdk() / "src").glob("*.cc"), *(_sdk() / "generated").glob("*.cpp")])
    if libcxx := _libcxx():
        sources += [libcxx / "src" / "filesystem" / f"{name}.cpp" for name in _LIBRARY_SOURCES]
    scratch = Path(tempfile.mkdtemp(prefix="sdk-", dir=into.parent))
    try:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            objects = list(
                pool.map(lambda source: _object(source, scratch, debug, report), sources)
            )
        archive = scratch / "lib.a"
        command = [sys.executable, "-m", "ziglang", "ar", "rcs", archive, *objects]
        done = run(command, cwd=scratch, env=_zig_environment(), report=report)
        if done.returncode != 0:
            raise BakeryError(f"the C++ SDK could not be archived:\n{done.stderr.strip()}")
        os.replace(archive, into)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _object(source: Path, folder: Path, debug: bool, report: Report) -> Path:
    made = folder / f"{source.stem}.o"
    own = source.is_relative_to(_sdk())
    library = [] if own else [*_LIBRARY, "-I", str(source.parents[1])]
    # The generated code breaks strict aliasing: it overwrites pointers with handles.
    command = [
        *_compiler(), *_MODE[debug], "-fno-strict-aliasing", *_sdk_includes(),
        *library, "-c", source, "-o", made,
    ]  # fmt: skip
    done = run(command, cwd=folder, env=_zig_environment(), report=report)
    if done.returncode != 0:
        raise BakeryError(
            f"the C++ SDK does not compile:\n{done.stderr.strip()}",
            hint="this is a bug in the SDK or its compiler, not in your code",
        )
    return made


# --- the component -------------------------------------------------------------------------------


def _componentize(project: Project, core: Path, out: Path, report: Report) -> None:
    handles = f"{wit.HANDLER}#handle".encode() in core.read_bytes()
    order = {
        "core": str(core),
        "world": wit.HTTP_WORLD if handles else wit.WORLD,
        "wit": str(wit.write_world(project, out.parent / "wit")),
        "modules": str(node_modules()),
        "out": str(out),
    }
    done = run(["node", _SCRIPT, json.dumps(order)], cwd=out.parent, report=report)
    if done.returncode == 0:
        return
    text = done.stderr.strip()
    if f"pie:{project.manifest.name}/run" in text:
        raise BakeryError(
            "the program has no entry point",
            hint="end one source file with PIE_MAIN(Main), where Main is your coroutine\n"
            "Task<Result<Json>> Main(Json input), or with PIE_HTTP(Serve) to answer HTTP requests",
        )
    raise BakeryError(f"jco could not make a component of the program:\n{text}")


# --- messages of the compiler --------------------------------------------------------------------


def _compile_failure(root: Path, output: str) -> BakeryError:
    """Shows the first errors as clang writes them. `where` is the user's line of the first one."""
    blocks = _error_blocks(output)
    if blocks:
        where = _user_line(root, blocks[0])
        if where:  # the first line need not repeat the place
            blocks[0][0] = _DIAGNOSTIC.sub("", blocks[0][0])
        shown = ["\n".join(block[:_SHOWN_LINES]) for block in blocks[:_SHOWN_ERRORS]]
        if len(blocks) > _SHOWN_ERRORS:
            shown.append(f"and {len(blocks) - _SHOWN_ERRORS} more errors")
        return BakeryError("\n".join(shown), where=where)
    if symbols := list(dict.fromkeys(_UNDEFINED.findall(output))):
        return BakeryError(
            "declared but not defined: " + ", ".join(symbols[:10]),
            hint="put the sources beside Pie.toml or under src/; bakery compiles only these",
        )
    return BakeryError(f"the compiler failed:\n{output.strip()}")


def _error_blocks(output: str) -> list[list[str]]:
    """Splits the output into errors, each with its source line and its notes."""
    blocks: list[list[str]] = []
    for line in output.splitlines():
        found = _DIAGNOSTIC.match(line)
        if found and found["kind"] == "error":
            blocks.append([])
        if blocks and not line.startswith("In file included from ") and not _SUMMARY.match(line):
            blocks[-1].append(line)
    return blocks


def _user_line(root: Path, block: list[str]) -> str | None:
    """Returns the user's own line. An error in a library's template names it in a note."""
    for line in block:
        found = _DIAGNOSTIC.match(line)
        if found is None:
            continue
        path = (root / found["file"]).resolve()
        if path.is_relative_to(root) and path.is_file():
            return f"{path}:{found['line']}"
    return None
