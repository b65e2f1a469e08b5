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


def test_masks_are_compared_where_every_peer_can_follow(bench):
    """Two walks over a document of two tokens; a mask's time is the median of its walks."""
    cases = [
        {"name": name, "tokens": [7, 8], "times_us": [2, 4, 2, 6], "compile_ms": 1, "warm_us": 3}
        for name in ("both", "one")
    ]
    slow = {"times_us": [20, 10, 20, 10], "compile_ms": 5, "warm_us": 9}
    fast = {"times_us": [1, 2, 3, 2], "compile_ms": 5, "warm_us": 9}
    peers = {"slow": [slow, slow], "fast": [fast, {"error": "too complex"}]}
    figures = bench.structured.summarise(cases, peers)
    assert figures["mask_p99_us"] == 5
    assert figures["mask_p99_us_slow"] == 20
    assert figures["mask_p99_ratio_best"] == 5 / 2
    assert figures["mask_first_p99_us"] == 4
    alone = bench.structured.summarise(cases, {})
    assert "mask_p99_ratio_best" not in alone


def test_make_soak_runs_all_parts_unless_some_are_named(monkeypatch):
    monkeypatch.syspath_prepend(str(_BENCH))
    reliability = importlib.import_module("reliability")
    assert reliability.parse([]).parts == reliability.PARTS
    assert reliability.parse(["kills", "--kills", "5"]).parts == ["kills"]
