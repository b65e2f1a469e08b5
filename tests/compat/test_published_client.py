"""The published Python client drives this server.

It is installed from the registry into a virtual environment, and only its documented calls are used
(`published_client.py`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import configuration
import pytest

from bakery.toolchain import cache_dir

ROOT = Path(__file__).resolve().parents[2]
PIE = os.environ.get("PIE_BINARY", str(ROOT / "build" / "bin" / "pie"))
PACKAGE = "pie-client==0.4.0"


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of a virtual environment with the package."""
    folder = cache_dir(f"compat/{PACKAGE.replace('==', '-')}")
    interpreter = folder / "bin" / "python"
    if not (folder / ".complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, PACKAGE], check=True)
        (folder / ".complete").touch()
    return interpreter


@contextmanager
def serving(home: Path, config: str = "") -> Iterator[str]:
    configuration.write(home, config)
    server = subprocess.Popen(
        [PIE, "serve", "--dummy", "--port", "0"],
        env={**os.environ, "PIE_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        uri = re.search(r"ws://\S+", server.stdout.readline())
        assert uri
        yield uri[0]
    finally:
        server.terminate()
        assert server.wait(30) == 0


def drive(python: Path, uri: str, *more: Path) -> dict:
    component = ROOT / "build" / "guests" / "serve-session-rust.wasm"
    manifest = ROOT / "tests" / "serve" / "session" / "rust" / "Pie.toml"
    script = Path(__file__).with_name("published_client.py")
    done = subprocess.run(
        [python, script, uri, component, manifest, *more],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def described(data: bytes) -> str:
    return f"{len(data)} bytes, {hashlib.sha256(data).hexdigest()}"


def check(found: dict) -> None:
    assert (found["before"], found["after"]) == (False, True)
    assert found["speak"] == [
        ["Stdout", "text"],
        ["Stdout", '{"event":"tick","n":3}'],
        ["Stdout", "printed\n"],
        ["Stderr", "complained\n"],
        ["File", described(b"\x00\x01\xff")],
        ["Return", '{"spoken":5}'],
    ]
    assert found["fail"] == [["Error", "it failed as asked"]]
    assert found["echo"] == [["Stdout", "one"], ["Return", "stopped"]]
    file = bytes(range(256)) * 4000
    assert found["file"] == [["File", described(file)], ["Return", str(len(file))]]
    assert found["listed"] == 1
    assert found["terminated"] == [["Error", "cancelled"]]


def test_without_authentication(python: Path, tmp_path: Path):
    with serving(tmp_path) as uri:
        check(drive(python, uri))


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_with_a_key(python: Path, tmp_path: Path, kind: str):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-m", "PEM", "-f", key], check=True)
    env = {**os.environ, "PIE_HOME": str(tmp_path)}
    subprocess.run([PIE, "auth", "add", "ada", f"{key}.pub"], env=env, check=True)
    with serving(tmp_path, "[auth]\nenabled = true\n") as uri:
        check(drive(python, uri, key))
