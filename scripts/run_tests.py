#!/usr/bin/env python3
"""Runs every test: C++ (ctest), then builds all guests, then Python (pytest), end to end too.

Nothing stops the rest: all is run, and the last line says `N passed, M failed` over everything.
A guest that does not build counts as a failed test.
"""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as xml
from dataclasses import dataclass
from pathlib import Path

import build_guests

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "test-results"


@dataclass
class Totals:
    """What the tests said so far."""

    passed: int = 0
    failed: int = 0

    def add(self, file: Path, exit_code: int) -> None:
        """Adds a JUnit report. A run that failed without failing a test counts as one failure."""
        cases = list(xml.parse(file).iter("testcase")) if file.is_file() else []
        failed = sum(1 for case in cases if _failed(case))
        skipped = sum(1 for case in cases if case.find("skipped") is not None)
        self.passed += len(cases) - failed - skipped
        self.failed += failed or (1 if exit_code else 0)


def _failed(case: xml.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def run_ctest(totals: Totals) -> None:
    report = RESULTS / "ctest.xml"
    command = ["ctest", "--test-dir", ROOT / "build" / "release", "--output-on-failure"]
    done = subprocess.run([*command, "--output-junit", report], check=False)
    totals.add(report, done.returncode)


def run_guests(totals: Totals) -> None:
    print("\nguests: every inferlet of this tree is built", flush=True)
    outcomes = build_guests.make_all(build_guests.all_guests())
    failed = sum(1 for outcome in outcomes if outcome.error)
    print(f"guests: {len(outcomes) - failed} ready, {failed} failed\n", flush=True)
    totals.failed += failed


def run_pytest(totals: Totals, arguments: list[str]) -> None:
    report = RESULTS / "pytest.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=False)
    totals.add(report, done.returncode)


def main() -> int:
    RESULTS.mkdir(parents=True, exist_ok=True)
    for old in RESULTS.glob("*.xml"):
        old.unlink()
    totals = Totals()
    run_ctest(totals)
    run_guests(totals)
    run_pytest(totals, sys.argv[1:])
    print(f"{totals.passed} passed, {totals.failed} failed", flush=True)
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
