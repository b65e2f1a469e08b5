"""Which packages a Python project asks for."""

from __future__ import annotations

import pytest

from bakery.languages import python_packages
from bakery.project import Manifest, Project
from bakery.report import Report

_notices: list[str] = []


class _Notes(Report):
    def step(self, text: str) -> None:
        _notices.append(text)


def _asked(root, **files: str) -> list[str]:
    _notices.clear()
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)
    return python_packages.requirements(Project(root, Manifest("a", "0.1.0", "", {})), _Notes())


def test_requirements_txt_is_read(tmp_path):
    text = "# for the templates\njinja2>=3  # two\n\nmarkupsafe==3.0.2 \\\n    --hash=sha256:ab\n"
    asked = _asked(tmp_path, requirements__txt=f"{text}-r more.txt\ninferlet\n", more__txt="rich\n")
    assert asked == ["jinja2>=3", "markupsafe==3.0.2", "rich"]


def test_a_line_that_is_no_package_is_named(tmp_path):
    assert _asked(tmp_path, requirements__txt="rich\n-e ./mine\n") == ["rich"]
    (notice,) = _notices
    assert "requirements.txt:2: not installed: -e ./mine" in notice


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ('"*"', "rich"),
        ('"^1.2.3"', "rich>=1.2.3,<2"),
        ('"^0.2.3"', "rich>=0.2.3,<0.3"),
        ('"~1.2.3"', "rich>=1.2.3,<1.3"),
        ('"~1"', "rich>=1,<2"),
        ('">=1.0, <2"', "rich>=1.0,<2"),
        ('"1.2"', "rich==1.2"),
        ('"3.*"', "rich==3.*"),
        ('{ version = "^1", extras = ["a", "b"] }', "rich[a,b]>=1,<2"),
    ],
)
def test_the_tables_of_poetry_are_read(tmp_path, version, wanted):
    table = f'[tool.poetry.dependencies]\npython = "^3.11"\nrich = {version}\n'
    more = 'maybe = { version = "1", optional = true }\n'
    assert _asked(tmp_path, pyproject__toml=table + more) == [wanted]


@pytest.mark.parametrize("asked", ['{ git = "https://example.org/x" }', '"^1.x"', "5"])
def test_what_poetry_alone_can_install_is_named(tmp_path, asked):
    assert not _asked(tmp_path, pyproject__toml=f"[tool.poetry.dependencies]\nrich = {asked}\n")
    assert _notices[0].startswith("not installed: rich = ")


def test_the_standard_table_comes_first(tmp_path):
    table = '[project]\nname = "a"\ndependencies = ["rich", "inferlet>=0.3"]\n'
    assert _asked(tmp_path, pyproject__toml=table, requirements__txt="other\n") == ["rich"]
