"""Runs the tests of our Rust: those of the SDK, of the bridge, and of inferlets."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from bakery.toolchain import cache_dir

ROOT = Path(__file__).resolve().parents[1]


def cargo_test(crate: Path, kept: str) -> None:
    target = cache_dir(f"cargo/{kept}")
    (target / ".used").touch()  # for `pie cache prune`
    done = subprocess.run(
        ["cargo", "test", "--quiet"],
        cwd=crate,
        env={**os.environ, "CARGO_TARGET_DIR": str(target)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_sdk_rust() -> None:
    cargo_test(ROOT / "sdk/rust", "sdk-rust")


@pytest.mark.parametrize("name", ["openai", "chat"])
def test_an_inferlet_in_its_own_folder(name: str) -> None:
    """Without bakery, `inferlets/.cargo/config.toml` leads to the SDK of the tree."""
    cargo_test(ROOT / "inferlets" / name, "inferlets")


def test_bridge(tmp_path: Path) -> None:
    began = time.time() - 1  # clocks of file systems are coarse
    done = subprocess.run(
        [ROOT / "scripts/build-bridge.sh", tmp_path, "test"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    # `pie cache prune` keeps what is marked as used.
    checkouts = cache_dir("cargo").glob("bridge-*/checkout")
    (target,) = (file.parent for file in checkouts if file.read_text() == str(ROOT))
    assert (target / ".used").stat().st_mtime >= began
