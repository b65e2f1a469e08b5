"""A saved context that cannot be read is an error in every language, and not a missing one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import configuration
import pytest

ROOT = Path(__file__).resolve().parents[2]
PIE = ROOT / "build" / "bin" / "pie"


def ask(home: Path, language: str, case: str, **given: str) -> dict:
    component = ROOT / "build" / "guests" / f"conformance-{language}.wasm"
    manifest = ROOT / "sdk" / "conformance" / language / "Pie.toml"
    table = json.dumps({"cases": [{"case": case, "input": given}]})
    done = subprocess.run(
        [PIE, "run", "--dummy", "--path", component, "--manifest", manifest, "--input", table],
        env={**os.environ, "PIE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)["results"][0]


@pytest.mark.parametrize("language", ("rust", "python", "typescript", "cpp"))
def test_what_is_damaged_is_told_apart_from_what_is_missing(language, tmp_path):
    configuration.write(tmp_path)
    length = ask(tmp_path, language, "keep", name="story", text="Once upon a time")["ok"]
    assert ask(tmp_path, language, "open_named", name="story")["ok"] == length
    missing = ask(tmp_path, language, "open_named", name="nothing")
    assert missing.get("ok") is None

    [file] = tmp_path.rglob("*.snapshot")
    file.write_bytes(b"no snapshot at all" + file.read_bytes()[18:])
    damaged = ask(tmp_path, language, "open_named", name="story")
    assert damaged.get("error") and damaged.get("error") != missing.get("error"), damaged
