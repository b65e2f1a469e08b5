"""A script that is called without its arguments prints its usage."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    "script",
    ["build-bridge.sh", "check_declarations.sh", "demo.sh", "run_sanitized.sh", "write_commit.sh"],
)
def test_a_script_names_the_arguments_that_it_lacks(script: str) -> None:
    done = subprocess.run([ROOT / "scripts" / script], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"usage: {script} " in done.stderr
