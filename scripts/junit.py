"""Counts what JUnit reports say, for the scripts that run tests."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Totals:
    """The results of some test runs."""

    passed: int = 0
    failed: int = 0

    @staticmethod
    def of(file: Path, exit_code: int) -> Totals:
        """Reads a JUnit report. A run that failed without a failed test counts as one failure."""
        cases = list(xml.parse(file).iter("testcase")) if file.is_file() else []
        failed = sum(1 for case in cases if _failed(case))
        skipped = sum(1 for case in cases if case.find("skipped") is not None)
        return Totals(len(cases) - failed - skipped, failed or (1 if exit_code else 0))

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.passed + other.passed, self.failed + other.failed)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed"


def _failed(case: xml.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None
