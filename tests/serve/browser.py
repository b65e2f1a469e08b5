"""A headless browser for tests, or the reason why there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LIMIT_MS = 120_000  # a step that takes longer hangs; the machine may be busy


@contextmanager
def opened() -> Iterator:
    """A browser, as the package playwright drives it. Tests are skipped where there is none."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is missing. Run: scripts/setup.sh test"
    )
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no browser is installed. Run: scripts/setup.sh test")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
