"""Runs the tests of our Rust: the SDK's (logic, the reference's examples) and the bridge's own."""

import os
import subprocess
import time
from pathlib import Path

from bakery.toolchain import cache_dir

ROOT = Path(__file__).resolve().parents[1]


def test_sdk_rust() -> None:
    target = cache_dir("cargo/sdk-rust")
    (target / ".used").touch()  # for `pie cache prune`
    done = subprocess.run(
        ["cargo", "test", "--quiet", "--manifest-path", ROOT / "sdk/rust/Cargo.toml"],
        env={**os.environ, "CARGO_TARGET_DIR": str(target)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


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
