"""llama.cpp as a peer: fetched, built for this machine and kept in the cache, with our driver.

The sources are inside the Python package `llama-cpp-python`. The build's folder is named after
everything that determines it (version, options, compiler, processor), so a machine builds it once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from bakery import toolchain

VERSION = "0.3.36"
DRIVER = Path(__file__).with_name("llamacpp_driver.cc")
# A release build for this processor. All other options have their defaults.
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DGGML_CCACHE=OFF",
    "-DLLAMA_BUILD_COMMON=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_TOOLS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_APP=OFF",
)


class Unavailable(Exception):
    """The peer is not available here; the text says why."""


def driver() -> Path:
    """The path of the driver. It is built if it is absent; the first time takes minutes."""
    for tool in ("cmake", "ninja", "g++"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{tool} is missing")
    with toolchain.lock("peer-llamacpp"):
        home = toolchain.cache_dir("peers") / f"llamacpp-{VERSION}-{_fingerprint()}"
        binaries = home / "build" / "bin"
        if not (home / ".complete").exists():
            _build(home)
        text = DRIVER.read_bytes()
        out = home / f"driver-{hashlib.sha256(text).hexdigest()[:16]}"
        if not out.exists():
            source = _source(home)
            partial = out.with_suffix(f".{os.getpid()}")
            command = ["g++", "-std=c++20", "-O2", DRIVER, "-o", partial]
            command += [f"-I{source / 'include'}", f"-I{source / 'ggml' / 'include'}"]
            command += [f"-L{binaries}", f"-Wl,-rpath,{binaries}"]
            run([*command, "-lllama", "-lggml", "-lggml-base"], home / "driver.log")
            partial.rename(out)
        return out


def driver_if_available() -> Path | None:
    """The path of the driver. If it is not available, prints why."""
    try:
        return driver()
    except Unavailable as reason:
        print(f"peers: llama.cpp is not available and not compared: {reason}", flush=True)
        return None


def _fingerprint() -> str:
    """A hash of everything that determines what the compiler makes of the sources."""
    compiler = subprocess.run(["g++", "-v"], capture_output=True, text=True, check=True).stderr
    native = subprocess.run(
        ["g++", "-march=native", "-Q", "--help=target"], capture_output=True, text=True, check=True
    ).stdout
    text = "\n".join([*OPTIONS, compiler, native])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _build(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    print(f"peers: building llama.cpp, once, for minutes; the log is in {home}", flush=True)
    _fetch(home)
    source, build = _source(home), home / "build"
    log = home / "build.log"
    # Options of our own builds, such as a compiler cache, do not apply.
    run(["cmake", "-G", "Ninja", "-S", source, "-B", build, *OPTIONS], log)
    jobs = str(max(1, (os.cpu_count() or 2)))
    run(["nice", "-n", "19", "cmake", "--build", build, "--target", "llama", "-j", jobs], log)
    (home / ".complete").touch()


def _fetch(home: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", "llama-cpp-python", "--dest", home]
    run([*command, f"llama-cpp-python=={VERSION}"], home / "fetch.log")
    for archive in home.glob("*.tar.gz"):
        with tarfile.open(archive) as tar:
            tar.extractall(home, filter="data")
        archive.unlink()


def _source(home: Path) -> Path:
    found = list(home.glob("*/vendor/llama.cpp"))
    if not found:
        raise Unavailable(f"the package has no vendor/llama.cpp; remove {home} and try again")
    return found[0]


def run(command: list[str | Path], log: Path) -> None:
    with log.open("a") as out:
        done = subprocess.run(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, check=False
        )
    if done.returncode != 0:
        raise Unavailable(f"`{command[0]} {command[1]} …` failed; see {log}")


if __name__ == "__main__":
    print(driver())
