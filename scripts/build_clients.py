#!/usr/bin/env python3
"""Builds what the tests of the clients run: the JavaScript package, drivers in Rust and C++.

    build_clients.py [javascript] [rust] [cpp]    without arguments, all of them

The results are in build/clients/. Each language's own tool decides what has to be rebuilt.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from bakery.toolchain import cache_dir, node_modules

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "clients"


def javascript_modules() -> Path:
    """The folder into which scripts/setup.sh installed the JavaScript client's dependencies."""
    lock = (ROOT / "client/javascript/package-lock.json").read_bytes()
    return cache_dir(f"client-js-{hashlib.sha256(lock).hexdigest()[:16]}") / "node_modules"


@cache
def javascript() -> Path:
    """Compiles the package beside its dependencies. Returns its folder."""
    source, out = ROOT / "client" / "javascript", OUT / "javascript"
    modules = javascript_modules()
    if not modules.is_dir():
        raise SystemExit("the packages of client/javascript are missing: run make setup")
    shutil.rmtree(out, ignore_errors=True)
    ignored = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(source, out, ignore=ignored)
    (out / "node_modules").symlink_to(modules)
    subprocess.run([node_modules() / ".bin" / "tsc", "-p", out], check=True)
    bundle = ["--bundle", "--format=esm", "--platform=browser", "--log-level=warning"]
    entry, page = out / "dist" / "index.js", out / "dist" / "browser.js"
    subprocess.run(
        [node_modules() / ".bin" / "esbuild", entry, *bundle, f"--outfile={page}"], check=True
    )
    return out


@cache
def rust() -> Path:
    """Builds the driver and the example. Returns the driver."""
    target = cache_dir("cargo/client-rust")
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--examples"]
    manifest = ROOT / "client" / "rust" / "Cargo.toml"
    env = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    subprocess.run([*command, "--manifest-path", manifest], check=True, env=env)
    (target / ".used").touch()  # for `pie cache prune`
    OUT.mkdir(parents=True, exist_ok=True)
    for name in ("driver", "hello"):
        shutil.copy2(target / "release" / "examples" / name, OUT / f"{name}-rust")
    return OUT / "driver-rust"


@cache
def cpp() -> Path:
    """Builds the driver and the example for both APIs. Returns the blocking driver."""
    names = [f"pie-client-{name}{face}" for name in ("driver", "hello") for face in ("", "-async")]
    command = ["cmake", "--build", ROOT / "build" / "release", "--target", *names]
    subprocess.run(command, check=True)
    return ROOT / "build" / "bin" / "pie-client-driver"


BUILDERS = {"javascript": javascript, "rust": rust, "cpp": cpp}


def main() -> int:
    for name in sys.argv[1:] or BUILDERS:
        print(f"clients: {BUILDERS[name]().relative_to(ROOT)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
