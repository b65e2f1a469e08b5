"""The agent of inferlets/agent: whatever the model chooses, its calls are well-formed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import PIE, ROOT
from raw_client import LIMIT_S


@pytest.mark.parametrize("language", ["python", "rust"])
@pytest.mark.parametrize("seed", [1, 3])
def test_every_call_is_served(tmp_path, language, seed):
    """The dummy model chooses at random, so only the grammar makes its calls well-formed."""
    config = tmp_path / "config.toml"
    command = json.dumps([str(ROOT / "inferlets/agent/kitchen.py")])
    config.write_text(f"[mcp.kitchen]\ncommand = {json.dumps(sys.executable)}\nargs = {command}\n")
    flags = ["--dummy", "--config", config, "--path", ROOT / f"build/guests/agent-{language}.wasm"]
    flags += ["--manifest", ROOT / f"inferlets/agent/{language}/Pie.toml"]
    given = ["--server", "kitchen", "--task", "Order two apple pies.", "--temperature", "1.5"]
    done = subprocess.run(
        [PIE, "run", *flags, "--", *given, "--max_calls", "4", "--seed", str(seed)],
        env={**os.environ, "PIE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    worked = json.loads(done.stdout)
    assert isinstance(worked["answer"], str) and len(worked["calls"]) <= 4
    for call in worked["calls"]:
        arguments = call["arguments"]
        assert arguments["pie"] in ("apple", "cherry", "pecan")
        if call["name"] == "order":
            assert 1 <= arguments["count"] <= 9 and arguments["pie"] in call["result"]
        else:
            assert call["name"] == "price" and call["result"] in ("4", "5", "6")


def test_an_unknown_server(tmp_path):
    (tmp_path / "config.toml").write_text("")
    flags = ["--dummy", "--path", ROOT / "build/guests/agent-rust.wasm"]
    flags += ["--manifest", ROOT / "inferlets/agent/rust/Pie.toml"]
    done = subprocess.run(
        [PIE, "run", *flags, "--", "--server", "nothing", "--task", "x"],
        env={**os.environ, "PIE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 1 and "no server is named 'nothing'" in done.stderr
