#!/usr/bin/env python3
"""Runs every test: C++ (ctest), then builds all guests, then Python (pytest), end to end too, then
the conformance tests again under a configuration that differs in everything.

A failure stops nothing: everything is run, and the last line says `N passed, M failed` over all of
it. A guest that does not build counts as a failed test.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import build_guests
import run_matrix
from junit import Totals

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "test-results"


def run_ctest() -> Totals:
    report = RESULTS / "ctest.xml"
    command = ["ctest", "--test-dir", ROOT / "build" / "release", "-j", "2", "--output-on-failure"]
    done = subprocess.run([*command, "--output-junit", report], check=False)
    return Totals.of(report, done.returncode)


def build_all_guests() -> Totals:
    print("\nguests: building every inferlet of this tree", flush=True)
    outcomes = build_guests.make_all(build_guests.all_guests())
    failed = sum(1 for outcome in outcomes if outcome.error)
    print(f"guests: {len(outcomes) - failed} ready, {failed} failed\n", flush=True)
    return Totals(failed=failed)


def run_pytest(arguments: list[str]) -> Totals:
    report = RESULTS / "pytest.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=False)
    return Totals.of(report, done.returncode)


def main() -> int:
    RESULTS.mkdir(parents=True, exist_ok=True)
    for old in RESULTS.glob("*.xml"):
        old.unlink()
    totals = run_ctest()
    totals += build_all_guests()
    totals += run_pytest(sys.argv[1:])
    totals += run_matrix.run_quick()
    print(totals, flush=True)
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
