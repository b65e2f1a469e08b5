"""Rust: cargo makes the component itself. bakery adds this checkout's SDK and a shared cache.

All projects share one cargo target folder, so that dependencies are compiled once. In that folder
cargo cannot tell two projects with the same crate name and version apart. So the crate itself is
compiled with a stamp of the project's path and files (`-C metadata`). Its component is kept under
that stamp, for a later build in which cargo finds nothing to compile.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Any

from bakery.errors import BakeryError
from bakery.languages import rust_manifest
from bakery.project import Project
from bakery.report import Report
from bakery.toolchain import Missing, cache_dir, find, lock, run, sdk_root

NAME = "rust"
TITLE = "Rust"

_TARGET = "wasm32-wasip2"
_RUSTUP = f"curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y -t {_TARGET}"
_SHOWN_ERRORS = 3
_CDYLIB = '[lib]\ncrate-type = ["cdylib"]'
_NOT_SOURCE = {"target", ".git", "node_modules"}
# Small components load and instantiate faster. A project's own [profile.release] takes precedence.
_RELEASE_PROFILE = {
    "opt-level": '"s"',
    "lto": "true",
    "codegen-units": "1",
    "panic": '"abort"',
    "strip": '"debuginfo"',  # names of functions stay, for the backtraces of traps
}


def detects(root: Path) -> bool:
    """A Rust project has a Cargo.toml."""
    return (root / "Cargo.toml").is_file()


def missing() -> list[Missing]:
    """Looks for cargo and its target for components."""
    cargo = _find("cargo")
    if cargo is None:
        return [Missing("cargo", "it compiles Rust", _RUSTUP)]
    if _has_target():
        return []
    if _find("rustup") is None:
        why = "this Rust lacks the target for components, and only rustup can add it"
        return [Missing(_TARGET, why, _RUSTUP)]
    return [
        Missing(
            _TARGET, "this Rust lacks the target for components", f"rustup target add {_TARGET}"
        )
    ]


def build(project: Project, out: Path, *, debug: bool, report: Report) -> None:
    """Writes the component to `out`, or raises a BakeryError that names the user's line."""
    if not (project.root / "Cargo.toml").is_file():
        raise BakeryError(
            f"{project.root} has no Cargo.toml, which a Rust inferlet needs",
            hint="make a project with `pie new my-app`, and put the program into its src/lib.rs",
        )
    settings = _read_cargo_toml(project.root / "Cargo.toml")
    named = _named_library(project, settings)
    profile = "debug" if debug else "release"
    stamp = _stamp(project.root, named)
    kept = _kept_component(project.root, profile, stamp)
    report.step(f"compiling {project.manifest.name} ({profile})")
    # No other project may overwrite the component before it is copied.
    with lock(f"rust-{profile}"):
        crate = _crate(project, settings, named, report)
        artifact = _cargo_build(project, crate, settings, stamp, debug=debug, report=report)
        if artifact["fresh"] and not kept.is_file():
            once = f"{stamp}-{time.time_ns()}"
            artifact = _cargo_build(project, crate, settings, once, debug=debug, report=report)
        if not artifact["fresh"]:
            for old in kept.parent.glob(f"{kept.name.partition('-')[0]}-*"):
                old.unlink()
            shutil.copyfile(_component_of(artifact), kept)
        shutil.copyfile(kept, out)


def _find(tool: str) -> Path | None:
    if found := find(tool):
        return found
    # rustup's own folder is on PATH only in login shells.
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    return home / "bin" / tool if os.access(home / "bin" / tool, os.X_OK) else None


def _has_target() -> bool:
    rustc = _find("rustc")
    if rustc is None:
        return False
    done = subprocess.run(
        [rustc, "--print", "target-libdir", "--target", _TARGET],
        capture_output=True,
        text=True,
        check=False,
    )
    libraries = Path(done.stdout.strip())
    return done.returncode == 0 and any(libraries.glob("libstd-*.rlib"))


def _read_cargo_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BakeryError(f"Cargo.toml is not valid TOML: {error}", where=str(path)) from None


def _named_library(project: Project, settings: dict[str, Any]) -> Path | None:
    """The source file that is compiled instead of the crate's own library, because the user named
    it."""
    if project.entry is None:
        return None
    library = settings.get("lib")
    path = library.get("path") if isinstance(library, dict) else None
    own = project.root / (path if isinstance(path, str) else "src/lib.rs")
    return None if own.resolve() == project.entry else project.entry


def _stamp(root: Path, named: Path | None) -> str:
    """A hash of the project's path, of the file that the user named, and of the names, sizes and
    times of the project's files."""
    digest = hashlib.sha256(f"{root}\0{named or ''}".encode())
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _NOT_SOURCE)
        for name in sorted(files):
            path = Path(folder) / name
            if path.suffix != ".wasm" and name != "Cargo.lock" and path.exists():
                state = path.stat()
                digest.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def _kept_component(root: Path, profile: str, stamp: str) -> Path:
    place = hashlib.sha256(str(root).encode()).hexdigest()[:16]
    return cache_dir(f"guests/rust/components/{profile}") / f"{place}-{stamp}.wasm"


def _crate(project: Project, settings: dict[str, Any], named: Path | None, report: Report) -> Path:
    """The folder that cargo builds: the project's, or one of links to it."""
    sdk = sdk_root() / "rust" / "inferlet"
    if named:
        path = named.relative_to(project.root).as_posix()
        settings = {**settings, "lib": {"path": path, "crate-type": ["cdylib"]}}
    elif not rust_manifest.needs_copy(settings, project.root, sdk):
        return project.root
    version = project.manifest.version
    folder, notices = rust_manifest.linked(settings, project.root, sdk, version)
    for notice in notices:
        report.step(notice)
    return folder


def _cargo_build(
    project: Project,
    crate: Path,
    settings: dict[str, Any],
    stamp: str,
    *,
    debug: bool,
    report: Report,
) -> dict[str, Any]:
    """Compiles the project in the folder `crate` and returns cargo's message about its library."""
    arguments = ["rustc", "--lib", "--target", _TARGET, "--message-format=json"]
    if features := rust_manifest.sdk_features(settings, project.root):
        arguments += ["--features", ",".join(features)]
    own_profiles = rust_manifest.profiles(settings, project.root)
    if not debug:
        arguments.append("--release")
        if "release" not in own_profiles:
            for key, value in _RELEASE_PROFILE.items():
                arguments += ["--config", f"profile.release.{key}={value}"]
    done = _cargo(
        [*arguments, "--config", _sdk_patch(), "--", "-C", f"metadata={stamp}"], crate, report
    )
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0:
        raise _failure(project, messages, done.stderr)
    for message in messages:
        is_own = message.get("manifest_path") == str(crate / "Cargo.toml")
        is_artifact = is_own and message["reason"] == "compiler-artifact"
        if is_artifact and "cdylib" in message["target"]["crate_types"]:
            return message
    raise BakeryError(
        "this crate makes no component, because its library is not a cdylib",
        hint=f"add to Cargo.toml\n{_CDYLIB}",
        where=str(project.root / "Cargo.toml"),
    )


def _sdk_patch() -> str:
    """Replaces the published SDK by this checkout's SDK."""
    sdk = sdk_root() / "rust" / "inferlet"
    return f"patch.crates-io.inferlet.path={json.dumps(str(sdk))}"


def _cargo(arguments: list[str], root: Path, report: Report) -> subprocess.CompletedProcess[str]:
    environment = {
        "CARGO_TARGET_DIR": str(cache_dir("guests/rust/target")),
        "CARGO_TERM_COLOR": "never",
        "CARGO_TERM_PROGRESS_WHEN": "never",
    }
    command = [str(_find("cargo") or "cargo"), *arguments]
    return run(command, cwd=root, env=environment, report=_PlainLines(report))


class _PlainLines(Report):
    """Passes cargo's messages for people on, and drops its JSON messages."""

    def __init__(self, report: Report):
        super().__init__(quiet=True)
        self._report = report

    def detail(self, text: str) -> None:
        if not text.startswith("{"):
            self._report.detail(text)


def _component_of(artifact: dict[str, Any]) -> Path:
    return next(Path(name) for name in artifact["filenames"] if name.endswith(".wasm"))


def _failure(project: Project, messages: list[dict[str, Any]], stderr: str) -> BakeryError:
    """Shows rustc's errors in the user's code, or cargo's output if there are none."""
    errors = [
        message["message"]
        for message in messages
        if message["reason"] == "compiler-message" and message["message"]["level"] == "error"
    ]
    located = [error for error in errors if error["spans"]]
    if not located:
        return _cargo_failure(project, stderr)
    shown = [error["rendered"].strip() for error in located[:_SHOWN_ERRORS]]
    if len(located) > _SHOWN_ERRORS:
        shown.append(f"… and {len(located) - _SHOWN_ERRORS} more errors")
    span = next((s for s in located[0]["spans"] if s["is_primary"]), located[0]["spans"][0])
    where = f"{project.root / span['file_name']}:{span['line_start']}"
    return BakeryError("\n\n".join(["the crate does not compile", *shown]), where=where)


def _cargo_failure(project: Project, stderr: str) -> BakeryError:
    text = stderr.strip()
    said = text[text.index("error") :] if "error" in text else text
    hint = None
    if "no library targets found" in said:
        hint = f"an inferlet is a library: add src/lib.rs, and to Cargo.toml\n{_CDYLIB}"
    elif "failed to get" in said or "failed to download" in said or "Could not resolve" in said:
        hint = "the first build of a project downloads its dependencies; check the network"
    return BakeryError(f"cargo failed: {said}", hint=hint, where=str(project.root / "Cargo.toml"))
