"""Which file a Python program begins with, and from which folder it imports its modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakery.errors import BakeryError
from bakery.languages import python, python_entry, python_imports
from bakery.project import open_project

_MAIN = "async def main(input):\n    return 1\n"


def _folder(tmp_path: Path, *names: str, source: str = _MAIN) -> Path:
    root = tmp_path / "folder"
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source if path.suffix == ".py" else "")
    return root


@pytest.mark.parametrize(
    ("files", "entry", "module"),
    [
        (["main.py", "app.py"], "main.py", "main"),
        (["app.py", "helper.py"], "app.py", "app"),
        (["src/app.py", "src/helper.py"], "src/app.py", "app"),
        (["__main__.py", "helper.py"], "__main__.py", "__main__"),
        (["bot.py"], "bot.py", "bot"),
        (["src/bot.py"], "src/bot.py", "bot"),
        (["my_bot/__init__.py", "my_bot/main.py"], "my_bot/main.py", "main"),
        (["src/my_bot/__init__.py", "src/my_bot/other.py"], "src/my_bot/__init__.py", "my_bot"),
        (["tools/__init__.py", "tools/run.py"], "tools/run.py", "run"),
    ],
)
def test_where_a_project_begins(tmp_path, files, entry, module):
    root = _folder(tmp_path, *files)
    (root / "pyproject.toml").write_text(
        '[project]\nname = "my-bot"\n\n[tool.poetry.scripts]\nrun = "tools.run:main"\n'
    )
    program = python_entry.find(open_project(root))
    assert program.entry == root / entry
    assert program.module == module
    assert program.kind == "program"


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ("asyncio.run(main())", "script"),
        ("result = asyncio.run(main({}))", "script"),
        ("await main()", "script"),
        ("try:\n    main()\nfinally:\n    pass", "script"),
        ("if __name__ == '__main__':\n    asyncio.run(main())", "program"),
        ("def again():\n    return main()", "program"),
        ("", "program"),
    ],
)
def test_a_file_that_calls_its_main_is_a_script(tmp_path, ending, kind):
    """Such a file would call the engine while it is built."""
    source = f"import asyncio\n\nasync def main(input=None):\n    return 1\n\n{ending}\n"
    root = _folder(tmp_path, "main.py", source=source)
    assert python_entry.find(open_project(root)).kind == kind


def test_no_entry_lists_what_is_looked_for(tmp_path):
    root = _folder(tmp_path, "one.py", "two.py")
    with pytest.raises(BakeryError, match="has no entry file") as caught:
        python_entry.find(open_project(root))
    assert "app.py" in caught.value.hint


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("from .text import f\n", "bot.main"),
        ("import bot.text\n", "bot.main"),
        ("import text\n", "main"),
    ],
)
def test_an_entry_that_imports_from_its_package_is_in_it(tmp_path, source, module):
    root = _folder(tmp_path, "bot/__init__.py", "bot/main.py", source=source)
    assert python_entry.find(open_project(root / "bot" / "main.py")).module == module


def test_of_a_loose_files_folder_only_its_modules_are_taken(tmp_path):
    root = _folder(tmp_path, "hello.py", "other.py", "notes.txt", "used.py", "pack/__init__.py")
    (root / "hello.py").write_text(f"import used\n{_MAIN}")
    (root / "used.py").write_text("def f():\n    import pack\n")
    program = python_entry.find(open_project(root / "hello.py"))
    found = python_imports.scan(program.entry, program.folder, [], script=False)
    python._stage(program, found, tmp_path / "staged", whole=False)
    staged = [path for path in (tmp_path / "staged").rglob("*") if path.is_file()]
    names = sorted(str(path.relative_to(tmp_path / "staged")) for path in staged)
    assert names == ["hello.py", "pack/__init__.py", "used.py"]
