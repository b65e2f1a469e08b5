"""The examples of inferlets/ that have tests: `pie test` runs them, in each of their languages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "inferlets"
LANGUAGES = ("rust", "python", "typescript", "cpp")


def components() -> Iterator[tuple[str, Path]]:
    """The name of each component, and the folder of its example and language."""
    for tests in sorted(EXAMPLES.glob("*/tests")):
        example = tests.parent
        folders = [example / language for language in LANGUAGES if (example / language).is_dir()]
        for folder in folders or [example]:
            yield "-".join(folder.relative_to(EXAMPLES).parts), folder


@pytest.fixture(scope="session")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config that saves the time of optimising components that run for milliseconds."""
    path = tmp_path_factory.mktemp("config") / "quick.toml"
    path.write_text('[runtime]\nwasm_compiler = "quick"\n')
    return path


@pytest.mark.parametrize(
    ("name", "folder"), list(components()), ids=[name for name, _ in components()]
)
def test_example(run: Callable, quick: Path, name: str, folder: Path):
    component = ROOT / "build" / "guests" / f"{name}.wasm"
    assert component.is_file(), f"{component} is missing: run `make guests`"
    tests = next(path / "tests" for path in (folder, folder.parent) if (path / "tests").is_dir())
    options = ["--path", component, "--tests", tests, "--config", quick]
    done = run("test", folder, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("0 failed")


def test_eight_examples_exist_in_every_language():
    every = [example for example in EXAMPLES.iterdir() if (example / LANGUAGES[0]).is_dir()]
    full = [path for path in every if all((path / language).is_dir() for language in LANGUAGES)]
    assert len(full) >= 8


# The engine runs the others itself: `pie chat` and the OpenAI API.
EXPLAINED = [path.parent for path in sorted(EXAMPLES.glob("*/tests")) if path.parent.name != "chat"]


@pytest.mark.parametrize("example", EXPLAINED, ids=lambda path: path.name)
def test_an_example_says_what_it_costs_elsewhere(example: Path):
    readme = (example / "README.md").read_text(encoding="utf-8")
    assert "**On another engine.**" in readme
    assert f"({example.name}/README.md)" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", sorted(p.parent.name for p in EXAMPLES.glob("*/README.md")))
def test_a_readme_says_what_it_costs_elsewhere(example: str):
    text = (EXAMPLES / example / "README.md").read_text()
    assert "**On another engine.**" in text
    assert 8 <= len(text.splitlines()) <= 20


def test_every_example_has_a_readme_and_a_line_in_the_list():
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and path.name != ".cargo"}
    assert folders == {path.parent.name for path in EXAMPLES.glob("*/README.md")}
    listed = (EXAMPLES / "README.md").read_text()
    assert {name for name in folders if f"]({name}/README.md)" not in listed} == set()
