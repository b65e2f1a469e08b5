"""Runs the Rust SDK's own tests: pure logic, and that the reference's examples compile."""

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
