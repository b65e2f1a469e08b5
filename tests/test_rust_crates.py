"""Runs the tests of our Rust: the SDK's (logic, the reference's examples) and the bridge's own."""

import os
import subprocess
from pathlib import Path

from bakery.toolchain import cache_dir

ROOT = Path(__file__).resolve().parents[1]


def test_sdk_rust() -> None:
    done = subprocess.run(
        ["cargo", "test", "--quiet", "--manifest-path", ROOT / "sdk/rust/Cargo.toml"],
        env={**os.environ, "CARGO_TARGET_DIR": str(cache_dir("cargo/sdk-rust"))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_bridge(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "scripts/build-bridge.sh", tmp_path, "test"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
