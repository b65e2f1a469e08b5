"""`pie cache`: what the cache holds, and what is deleted."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

PIE = Path(__file__).resolve().parents[2] / "build/bin/pie"
DAY_S = 24 * 60 * 60


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with something of each kind, all of it last used 40 days ago."""
    for name in (
        *("models/small/weights.gguf", "locks/setup.lock", "code/aa.cwasm", "code/bb.cwasm"),
        *("venv-1234/pyvenv.cfg", "client-js-99/.complete", "js-99/.complete"),
        *("cargo/bridge-1/release/libpie_bridge.a", "something/else"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 5000)
        touch(path, days=40)
    return tmp_path


def touch(path: Path, days: int) -> None:
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))


def pie_cache(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PIE, "cache", *arguments],
        env={**os.environ, "PIE_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_list_sums_by_kind(cache):
    listed = json.loads(pie_cache(cache, "list", "--json").stdout)
    counts = {kind["kind"]: kind["entries"] for kind in listed}
    assert counts == {
        **{"models": 1, "locks": 1, "code": 2, "venv": 1, "client-js": 1, "js": 1},
        **{"cargo": 1, "other": 1},
    }
    assert all(kind["bytes"] >= 5000 * kind["entries"] for kind in listed)
    text = pie_cache(cache, "list").stdout
    assert "used 40 days ago" in text and str(cache) in text


def test_prune_keeps_what_was_used_and_models(cache):
    touch(cache / "code/bb.cwasm", days=10)
    touch(cache / "cargo/bridge-1/release/libpie_bridge.a", days=1)
    would = pie_cache(cache, "prune", "--dry-run")
    assert "aa.cwasm" in would.stdout and (cache / "code/aa.cwasm").exists()
    assert pie_cache(cache, "prune").returncode == 0
    left = {str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()}
    assert left == {
        *("models/small/weights.gguf", "locks/setup.lock", "code/bb.cwasm"),
        "cargo/bridge-1/release/libpie_bridge.a",
    }


def test_reading_a_file_is_no_use(cache):
    """Few file systems keep the times of access, and backups change them."""
    for name in ("venv-1234/pyvenv.cfg", "js-99/.complete"):
        then = (cache / name).stat().st_mtime
        os.utime(cache / name, (time.time(), then))
    (cache / "venv-1234/.used").touch()  # what uses an entry marks it
    assert pie_cache(cache, "prune").returncode == 0
    assert (cache / "venv-1234/pyvenv.cfg").exists() and not (cache / "js-99").exists()


def test_prune_of_everything_keeps_models(cache):
    assert pie_cache(cache, "prune", "--days", "0").returncode == 0
    left = {path.name for path in cache.rglob("*") if path.is_file()}
    assert left == {"weights.gguf", "setup.lock"}


def test_a_missing_cache_and_bad_days(tmp_path):
    assert pie_cache(tmp_path / "none", "list").returncode == 0
    assert pie_cache(tmp_path, "prune", "--days", "-1").returncode == 1
