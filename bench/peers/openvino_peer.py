"""OpenVINO GenAI as a peer: it is installed into a virtual environment in the cache and driven
there by openvino_driver.py."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from bakery import toolchain

from .llamacpp import Unavailable

PACKAGE = "openvino-genai==2026.4.1.0"
DRIVER = Path(__file__).with_name("openvino_driver.py")


def python() -> Path:
    """The interpreter of an environment with OpenVINO. It is created if it is absent."""
    key = hashlib.sha256(f"{PACKAGE} {sys.version}".encode()).hexdigest()[:16]
    home = toolchain.cache_dir("peers") / f"openvino-{key}"
    with toolchain.lock("peer-openvino"):
        if not (home / ".complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            print(f"peers: installing {PACKAGE}, once", flush=True)
            _run([sys.executable, "-m", "venv", home], "make an environment")
            pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet"]
            _run([*pip, "--disable-pip-version-check", PACKAGE], f"install {PACKAGE}")
            (home / ".complete").touch()
    return home / "bin" / "python"


def _run(command: list[str | Path], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no reason given"]
        raise Unavailable(f"could not {what}: {last[0]}")
