"""Runs the hostile corpus (hostile.cc) against the guest that bakery built."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_hostile_guests(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "build/bin/pie-hostile", "--gtest_brief=1"],
        env={
            **os.environ,
            "PIE_HOSTILE_GUEST": str(ROOT / "build/guests/hostile-guest.wasm"),
            "PIE_HOSTILE_CORPUS": str(ROOT / "tests/hostile/corpus"),
            "PIE_HOSTILE_COMPILER": str(ROOT / "build/bin/pie"),
            "PIE_HOSTILE_CACHE": str(tmp_path / "code"),
        },
        capture_output=True,
        text=True,
        timeout=900,  # so long that the test fails only if something hangs
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
