"""The imports of a Python program are found without running it."""

from pathlib import Path

import pytest

from bakery.languages import python_imports


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "main.py"


def late(entry: Path, *others: Path, script: bool = False) -> dict[str, bool]:
    found = python_imports.scan(entry, entry.parent, list(others), script=script)
    return {module: required for (module, _), required in found.late.items()}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("async def main(input):\n    pass", True),
        ("def main(): pass", True),
        ("from app import main", True),
        ("main = print", True),
        ("type X = int\ndef main(): pass", True),  # this syntax is newer than some interpreters
        ("print('main')", False),
        ("def mains(): pass", False),
        ("class A:\n    def main(self): pass", False),
    ],
)
def test_a_program_has_a_main_a_script_has_none(source, expected):
    assert python_imports.defines(source, "main") is expected


def test_only_imports_inside_functions_are_late(tmp_path):
    entry = write(
        tmp_path,
        main="import json\nclass A:\n    import re\ndef main(input):\n    import csv, a.b\n",
    )
    assert late(entry) == {"csv": True, "a.b": True}


def test_a_scripts_imports_are_all_late(tmp_path):
    assert late(write(tmp_path, main="import json\n"), script=True) == {"json": True}


def test_guarded_imports_may_be_absent(tmp_path):
    entry = write(
        tmp_path,
        main=(
            "from typing import TYPE_CHECKING\n"
            "def main(input):\n"
            "    try:\n        import orjson\n    except ImportError:\n        import json\n"
            "    if TYPE_CHECKING:\n        import numpy\n"
            "    import_module('fractions')\n"
        ),
    )
    assert late(entry) == {"orjson": False, "json": False, "fractions": False}


def test_the_programs_own_modules_are_followed(tmp_path):
    entry = write(
        tmp_path,
        main="import tools.web\n",
        tools____init__="",
        tools__web="from . import text\nfrom .deep.down import f\n",
        tools__text="def f():\n    import textwrap\n",
        tools__deep__down="def f():\n    from ..text import g\n    import csv\n",
    )
    assert late(entry) == {"textwrap": True, "tools.text": True, "csv": True}


def test_packages_late_imports_are_done_if_they_can_be(tmp_path):
    packages = tmp_path / "packages"
    write(packages, lib="def f():\n    import msvcrt\n")
    entry = write(tmp_path / "program", main="import lib\n")
    assert late(entry, packages) == {"msvcrt": False}


def test_where_a_module_is_first_imported(tmp_path):
    entry = write(tmp_path, main="import os\n\ndef f():\n    import nowhere\n")
    found = python_imports.scan(entry, tmp_path, [], script=False)
    assert found.where["nowhere"] == (entry, 4)


def test_files_that_do_not_parse_are_left_to_the_component(tmp_path):
    assert late(write(tmp_path, main="import broken\n", broken="def (:\n")) == {}
