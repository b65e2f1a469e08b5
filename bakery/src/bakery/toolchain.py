"""Finds and runs the tools that make components, and manages the cache folder they write to."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bakery.report import Report

_REPO = Path(__file__).resolve().parents[3]
NOT_FOUND = 127  # the exit code of a shell for a command that does not exist


@dataclass(frozen=True)
class Missing:
    """A part of a toolchain that is not installed."""

    tool: str
    why: str
    install: str  # the exact command that installs it


def sdk_root() -> Path:
    """The folder of the SDKs that are compiled into inferlets. $PIE_SDK overrides it."""
    override = os.environ.get("PIE_SDK")
    return Path(override) if override else _REPO / "sdk"


def wit_root() -> Path:
    """The folder of the contract between inferlet and engine. It lies beside the SDKs."""
    beside_sdk = sdk_root().parent / "wit"
    return beside_sdk if beside_sdk.is_dir() else _REPO / "wit"


def cache_dir(name: str) -> Path:
    """Returns a folder of the cache and creates it. Use `lock` where two builds may write."""
    path = _cache_root() / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def _cache_root() -> Path:
    if own := os.environ.get("PIE_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "pie"
    return Path.home() / ".cache" / "pie"


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Holds the machine-wide lock `name`. Other builds wait for it. It ends with the process."""
    path = cache_dir("locks") / f"{name}.lock"
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def node_modules() -> Path:
    """The folder of the npm packages of bakery/js. It does not exist before `make setup`."""
    lock_file = _REPO / "bakery" / "js" / "package-lock.json"
    if not lock_file.is_file():
        return _cache_root() / "js-none" / "node_modules"
    # scripts/setup.sh computes the same name with sha256sum.
    digest = hashlib.sha256(lock_file.read_bytes()).hexdigest()[:16]
    return _cache_root() / f"js-{digest}" / "node_modules"


def find(tool: str) -> Path | None:
    """Looks for a tool in bakery's own environment first, then on PATH."""
    beside_python = Path(sys.executable).parent / tool
    if beside_python.is_file() and os.access(beside_python, os.X_OK):
        return beside_python
    found = shutil.which(tool)
    return Path(found) if found else None


def run(
    cmd: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str | None] | None = None,
    report: Report,
) -> subprocess.CompletedProcess[str]:
    """Runs a tool, captures stdout and stderr, and shows the last line as progress.

    A bare name is looked up by `find`. `env` changes environment variables; a value of None removes
    the variable. The function does not raise if the tool fails: a command that does not exist has
    return code 127. If bakery is interrupted, it stops the tool.
    """
    args = [str(part) for part in cmd]
    args[0] = str(find(args[0]) or args[0])
    report.detail("$ " + " ".join(args))
    try:
        process = subprocess.Popen(
            args,
            cwd=cwd,
            env=_environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        return subprocess.CompletedProcess(args, NOT_FOUND, "", f"{args[0]}: {error.strerror}")

    out: list[str] = []
    err: list[str] = []
    readers = [
        threading.Thread(target=_drain, args=(process.stdout, out, report), daemon=True),
        threading.Thread(target=_drain, args=(process.stderr, err, report), daemon=True),
    ]
    for reader in readers:
        reader.start()
    try:
        process.wait()
    except BaseException:
        _end(process)
        raise
    for reader in readers:
        reader.join()
    return subprocess.CompletedProcess(args, process.returncode, "".join(out), "".join(err))


def _environment(changes: Mapping[str, str | None] | None) -> dict[str, str]:
    merged = dict(os.environ)
    for key, value in (changes or {}).items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _drain(stream: IO[str], into: list[str], report: Report) -> None:
    with stream:
        for line in stream:
            into.append(line)
            report.detail(line)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(timeout=3)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
