"""A build marks the files that it uses, for `pie cache prune`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bakery import uses

LONG_AGO = 1_000_000


def test_marks(tmp_path, monkeypatch):
    monkeypatch.setenv("PIE_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv-1"))
    monkeypatch.setattr(uses, "node_modules", lambda: tmp_path / "js-1/node_modules")
    monkeypatch.setattr(uses, "find", lambda _: tmp_path / "rustup/toolchains/x/bin/cargo")
    names = ("venv-1/.complete", "js-1/.complete", "rustup/.complete-1.95", "venv-2/.complete")
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, (LONG_AGO, LONG_AGO))
    uses.mark_tools()
    marked = [(tmp_path / name).stat().st_mtime > LONG_AGO for name in names]
    assert marked == [True, True, True, False]
    monkeypatch.setattr(uses, "find", lambda _: Path("/usr/bin/cargo"))
    uses.mark_tools()


def test_builds(tmp_path, monkeypatch):
    monkeypatch.setenv("PIE_CACHE", str(tmp_path))
    uses.mark_builds("rust")
    assert not list(tmp_path.iterdir())  # it makes no folders
    for name in ("guests/rust", "guests/python", "python-packages"):
        (tmp_path / name).mkdir(parents=True)
    uses.mark_builds("python")
    used = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob(".used")}
    assert used == {"guests/python/.used", "python-packages/.used"}
