"""Inferlets of the published Rust SDK run unchanged, and their sources also build with our SDK.

The project in `published-rust/` is built twice from one source: by plain cargo with the crate from
the registry, and by bakery with the SDK of this tree. Both components must give the same answer.
Its manifest is called `manifest.toml` there, so that it is not built among this tree's own guests.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bakery.toolchain import cache_dir

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).parent / "published-rust"
PIE = ROOT / "build" / "bin" / "pie"
BAKERY = ROOT / "build" / "bin" / "bakery"
INPUT = {"prompt": "Tell me about pie.", "max_tokens": 24}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A copy of the project to build in, because cargo writes into a project's folder."""
    copy = tmp_path_factory.mktemp("compat") / "published-rust"
    shutil.copytree(SOURCE, copy)
    (copy / "manifest.toml").rename(copy / "Pie.toml")
    return copy


@pytest.fixture(scope="module")
def published(project: Path) -> dict[str, Any]:
    target = cache_dir("compat/published-rust")
    command = ["cargo", "build", "--release", "--locked", "--target", "wasm32-wasip2"]
    checked([*command, "--target-dir", target], cwd=project)
    return run(target / "wasm32-wasip2" / "release" / "published_rust.wasm", project)


def test_it_links_and_runs(published: dict[str, Any]):
    assert published["models"]
    assert published["text"]
    assert published["forked"] is True
    assert published["distribution"] == 5
    assert published["vocabulary"] > 0
    assert published["pulled"] == "one"
    assert published["heard"] == "x"


def test_collected_text_is_what_the_steps_gave(published: dict[str, Any]):
    assert published["collected"] == published["text"]
    assert len(published["probed"]) <= INPUT["max_tokens"]


def test_our_sdk_gives_the_same_answer(published: dict[str, Any], project: Path, tmp_path: Path):
    ours = tmp_path / "ours.wasm"
    checked([BAKERY, "build", project, "-o", ours], cwd=project)
    answer = run(ours, project)
    # Row 0 of the first step is the sampled row in our SDK, as it is in every later step. In the
    # published one it is the first row of the prompt.
    assert answer.pop("probed")[1:] == published["probed"][1:]
    assert answer == {key: value for key, value in published.items() if key != "probed"}


def run(component: Path, project: Path) -> dict[str, Any]:
    assert PIE.is_file(), f"{PIE} is missing: run `make`"
    command = [PIE, "run", "--dummy", "--path", component, "--manifest", project / "Pie.toml"]
    return json.loads(checked([*command, "--input", json.dumps(INPUT)], cwd=project))


def checked(command: list[str | Path], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[0]} failed\n{done.stderr}\n{done.stdout}"
    return done.stdout
