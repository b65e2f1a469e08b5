import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import engine  # noqa: E402

engine.install()


@pytest.fixture(autouse=True)
def fresh_engine():
    """Every test leaves no resource behind: what is not dropped in time stays in the engine."""
    engine.reset()
    yield engine.state
    assert engine.left_behind() == []


@pytest.fixture
def model():
    from inferlet import Model

    return Model.load("dummy")
