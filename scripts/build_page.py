#!/usr/bin/env python3
"""Makes the page that a server shows to browsers.

    build_page.py [FOLDER]    where to put it; without an argument, build/share/pie/web

The files of web/ are copied as they are. The only thing that is made is pie-client.js: the
JavaScript client with its dependencies in one module. Without Node it cannot be made, and servers
have no page.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import build_clients
from bakery.toolchain import node_modules

ROOT = Path(__file__).resolve().parents[1]
CLIENT = ROOT / "client" / "javascript"


def bundle_client(into: Path) -> None:
    modules = build_clients.javascript_modules()
    esbuild = node_modules() / ".bin" / "esbuild"
    if not modules.is_dir() or not esbuild.exists():
        raise FileNotFoundError
    subprocess.run(
        [
            esbuild,
            CLIENT / "src" / "index.ts",
            "--bundle",
            "--format=esm",
            "--platform=browser",
            "--minify",
            "--log-level=warning",
            f"--alias:#platform={CLIENT / 'src' / 'platform_browser.ts'}",
            *(f"--alias:{name}={modules / name}" for name in ("@msgpack/msgpack", "@noble/hashes")),
            f"--outfile={into}",
        ],
        check=True,
    )


def main() -> int:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "share" / "pie" / "web")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    try:
        bundle_client(out / "pie-client.js")
    except FileNotFoundError:
        # The engine can be built without Node.
        print("page: Node's packages are missing, so servers have no page: run make setup")
        return 0
    for source in (ROOT / "web").iterdir():
        shutil.copyfile(source, out / source.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
