"""All tests run with a home of their own, under the configuration of this run."""

from __future__ import annotations

import os
from pathlib import Path

import configuration
import pytest


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An engine that a test starts uses neither the config nor the saved contexts of the person who
    runs the tests."""
    home = tmp_path_factory.mktemp("home")
    configuration.write(home)
    os.environ["PIE_HOME"] = str(home)
    return home


def pytest_report_header() -> str:
    """The first lines of pytest's output name the configuration."""
    return f"engine configuration: {configuration.NAME or 'the defaults'}"
