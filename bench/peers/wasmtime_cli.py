"""`wasmtime serve` as a peer. The command is built from its crate, once, with what it needs to
serve; it has no lighter package."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bakery import toolchain

from . import llamacpp
from .llamacpp import Unavailable

# The version of the engine's own runtime (bridge/Cargo.toml).
VERSION = "48.0.8"
FEATURES = "run,serve,component-model-async,cranelift,pooling-allocator,parallel-compilation"
_START_S = 60


def command() -> Path:
    """The path of the command. It is built if it is absent, which takes many minutes."""
    home = toolchain.cache_dir("peers") / f"wasmtime-{VERSION}"
    with toolchain.lock("peer-wasmtime"):
        if not (home / ".complete").exists():
            if shutil.which("cargo") is None:
                raise Unavailable("cargo is missing")
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            print(f"peers: building wasmtime, once, for minutes; the log is in {home}", flush=True)
            build = ["cargo", "install", "--locked", f"wasmtime-cli@{VERSION}"]
            build += ["--no-default-features", "--features", FEATURES, "--root", home]
            llamacpp.run(["nice", "-n", "19", *build], home / "build.log")
            (home / ".complete").touch()
    return home / "bin" / "wasmtime"


@contextmanager
def serving(component: Path) -> Iterator[int]:
    """Serves a component. Gives the port."""
    program = command()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [program, "serve", "-Scli", "--addr", f"127.0.0.1:{port}", component],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(port, process)
        yield port
    finally:
        process.terminate()
        process.wait()


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise Unavailable("`wasmtime serve` did not start")
