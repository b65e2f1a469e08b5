"""bench/run.py must not lose the figures of parts that were not measured."""

import importlib
import json
from pathlib import Path

import pytest

_BENCH = Path(__file__).resolve().parents[1] / "bench"


@pytest.fixture
def bench(monkeypatch):
    """bench/run.py as a module. Its folder is on the path only meanwhile: its names are common."""
    monkeypatch.syspath_prepend(str(_BENCH))
    return importlib.import_module("run")


@pytest.mark.parametrize("count", range(1, 5))
def test_other_parts_keep_their_figures(bench, tmp_path, count):
    out = tmp_path / "bench.json"
    out.write_text(json.dumps({f"{part}_figure": 1.0 for part in bench.PARTS}))
    measured = bench.PARTS[:count]
    bench.write({f"{part}_figure": 2.0 for part in measured}, measured, out)
    expected = {f"{part}_figure": 2.0 if part in measured else 1.0 for part in bench.PARTS}
    assert json.loads(out.read_text()) == expected


def test_a_complete_run_drops_figures_that_no_longer_exist(bench, tmp_path):
    out = tmp_path / "bench.json"
    out.write_text(json.dumps({"renamed_since": 1.0}))
    bench.write({"engine_figure": 2.0}, bench.PARTS, out)
    assert json.loads(out.read_text()) == {"engine_figure": 2.0}


def test_only_the_named_parts_are_measured(bench, monkeypatch):
    monkeypatch.setattr(bench.kv, "measure", lambda: {"kv": 1.0})
    monkeypatch.setattr(bench.serve, "measure", lambda: {"serve": 2.0})
    assert bench.measure(["serve", "kv"], rounds=1) == {"kv": 1.0, "serve": 2.0}
