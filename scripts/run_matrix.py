#!/usr/bin/env python3
"""Runs the end-to-end suites again under other configurations of the engine.

    scripts/run_matrix.py                 every configuration of tests/configurations/
    scripts/run_matrix.py pages-1 q8      these
    scripts/run_matrix.py -k rust q8      pytest's own -k

The C++ tests are not repeated: they configure what they test themselves. The last line says
`N passed, M failed` over all configurations. The engine and the guests must be built already.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from junit import Totals

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "test-results"
CONFIGURATIONS = ROOT / "tests" / "configurations"

# The parts of the engine in which a user can notice a configuration: inferlets in every language,
# the default model, saved contexts, structured output, adapters, the server.
SUITES = (
    "tests/e2e/test_adapters.py",
    "tests/e2e/test_conformance.py",
    "tests/e2e/test_damaged_snapshots.py",
    "tests/e2e/test_forgotten_contexts.py",
    "tests/e2e/test_model.py",
    "tests/e2e/test_python_sdk.py",
    "tests/e2e/test_run.py",
    "tests/e2e/test_rust_sdk.py",
    "tests/e2e/test_snapshots.py",
    "tests/e2e/test_structured.py",
    "tests/compat",
    "tests/cpp-sdk",
    "tests/serve",
)


def names() -> list[str]:
    """Every configuration there is."""
    return sorted(path.stem for path in CONFIGURATIONS.glob("*.toml"))


def run(name: str, suites: tuple[str, ...], selection: str) -> Totals:
    """Runs some suites under one configuration, and counts."""
    print(f"\nmatrix: {name}", flush=True)
    report = RESULTS / f"matrix-{name}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *suites]
    command += ["-k", selection] if selection else []
    env = {**os.environ, "PIE_TEST_CONFIGURATION": name}
    done = subprocess.run(command, cwd=ROOT, env=env, check=False)
    totals = Totals.of(report, done.returncode)
    print(f"matrix: {name}: {totals}", flush=True)
    return totals


def run_quick() -> Totals:
    """The part of the matrix that `make test` runs: one configuration with many options at once,
    and the conformance tests in the two languages whose inferlets compile quickly."""
    return run("everything", ("tests/e2e/test_conformance.py",), "rust or cpp")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="CONFIGURATION", help=", ".join(names()))
    parser.add_argument("-k", default="", metavar="EXPRESSION", help="which tests, as for pytest")
    options = parser.parse_args()
    if unknown := set(options.names) - set(names()):
        parser.error(f"no such configuration: {', '.join(sorted(unknown))}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    totals = Totals()
    for name in options.names or names():
        totals += run(name, SUITES, options.k)
    print(totals, flush=True)
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
