"""The Python packages xgrammar and llguidance as peers: they are installed into a virtual
environment in the cache and driven there by grammars_driver.py."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from bakery import toolchain

from .llamacpp import Unavailable

PACKAGES = ("llguidance==1.9.1", "xgrammar==0.2.8")
# The packages that xgrammar needs to fill masks. PyTorch and transformers take gigabytes; here they
# are only named.
BESIDE = ("apache-tvm-ffi>=0.1.11", "numpy", "pydantic", "typing-extensions")
DRIVER = Path(__file__).with_name("grammars_driver.py")


def measure(masks: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The figures of `pie-structured-bench masks` for each package: name → a figure for each case.
    A case that a package refuses has an `error`."""
    done = subprocess.run(
        [_python(), DRIVER], input=json.dumps(masks), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise Unavailable(f"its driver failed: {last[0]}")
    return json.loads(done.stdout)


def _python() -> Path:
    """The interpreter of an environment with the packages. It is created if it is absent."""
    key = hashlib.sha256(f"{PACKAGES} {BESIDE} {sys.version}".encode()).hexdigest()[:16]
    home = toolchain.cache_dir("peers") / f"grammars-{key}"
    with toolchain.lock("peer-grammars"):
        if not (home / ".complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            print(f"peers: installing {' and '.join(PACKAGES)}, once", flush=True)
            _run([sys.executable, "-m", "venv", home])
            pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet"]
            pip.append("--disable-pip-version-check")
            _run([*pip, "--no-deps", *PACKAGES])
            _run([*pip, *BESIDE])
            (home / ".complete").touch()
    return home / "bin" / "python"


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no reason given"]
        raise Unavailable(f"could not install the packages: {last[0]}")
