#!/usr/bin/env python3
"""Runs every test: C++ (ctest), then builds all guests, then Python (pytest), end to end too, then
the conformance tests again under a configuration that differs in everything.

A failure stops nothing: everything is run, and the last line says `N passed, M failed` over all of
it. A guest that does not build counts as a failed test.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from dataclasses import dataclass
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


# These suites mostly wait for servers and clients, so they run beside the others. Those of hostile
# guests measure times, so they run alone.
BESIDE = ("tests/serve", "tests/clients")
ALONE = ("tests/hostile",)


def run_pytest(arguments: list[str]) -> Totals:
    if arguments:
        return start_pytest("pytest", arguments).wait()
    ignored = [f"--ignore={suite}" for suite in (*BESIDE, *ALONE)]
    beside = start_pytest("pytest-beside", list(BESIDE), RESULTS / "pytest-beside.log")
    totals = start_pytest("pytest", ignored).wait()
    totals += beside.wait()
    return totals + start_pytest("pytest-alone", list(ALONE)).wait()


@dataclass
class Running:
    """A pytest that runs. Its output is shown at once, or from a log when it has ended."""

    process: subprocess.Popen[bytes]
    report: Path
    log: Path | None

    def wait(self) -> Totals:
        exit_code = self.process.wait()
        if self.log:
            print(f"\n{self.log.stem}:", flush=True)
            print(self.log.read_text(encoding="utf-8", errors="replace"), flush=True)
        return Totals.of(self.report, exit_code)


def start_pytest(name: str, arguments: list[str], log: Path | None = None) -> Running:
    report = RESULTS / f"{name}.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
    # Two runs at the same time must not write one cache.
    command += ["-p", "no:cacheprovider"] if log else []
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("wb")) if log else None
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    return Running(process, report, log)


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
