"""How the language of a folder is detected."""

import pytest

from bakery.errors import BakeryError
from bakery.languages import FLAGS, ORDER, detect, language_of, load
from bakery.project import open_project


def _folder(tmp_path, *names: str):
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("files", "language"),
    [
        (["Cargo.toml", "src/lib.rs"], "rust"),
        (["package.json", "src/index.ts"], "javascript"),
        (["index.ts"], "javascript"),
        (["main.js"], "javascript"),
        (["CMakeLists.txt", "main.cpp"], "cpp"),
        (["main.cpp"], "cpp"),
        (["pyproject.toml", "main.py"], "python"),
        (["main.py"], "python"),
        (["src/main.py"], "python"),
        (["app.py"], "python"),
        (["requirements.txt", "bot.py"], "python"),
        (["Cargo.toml", "src/lib.rs", "src/main.py"], "rust"),
        (["Cargo.toml", "main.py"], "rust"),
        (["pyproject.toml", "helper.cpp"], "python"),
    ],
)
def test_told_by_its_files(tmp_path, files, language):
    assert language == detect(_folder(tmp_path, *files)).NAME


def test_a_named_file_tells_its_language(tmp_path):
    project = open_project(_folder(tmp_path, "main.py", "index.ts") / "index.ts")
    assert language_of(project, None).NAME == "javascript"
    with pytest.raises(BakeryError, match=r"index\.ts is not a source file in Python"):
        language_of(project, "python")


def test_none_is_an_error_that_lists_what_would_do(tmp_path):
    with pytest.raises(BakeryError, match="cannot tell in which language") as caught:
        detect(_folder(tmp_path, "notes.txt"))
    assert "Cargo.toml" in caught.value.hint


@pytest.mark.parametrize("files", [["Cargo.toml", "package.json"], ["main.py", "index.ts"]])
def test_two_at_once_is_an_error_that_asks(tmp_path, files):
    with pytest.raises(BakeryError, match="at once") as caught:
        detect(_folder(tmp_path, *files))
    assert "--ts" in caught.value.hint


@pytest.mark.parametrize("name", ORDER)
def test_every_language_has_the_same_face(name):
    language = load(name)
    assert name == language.NAME
    assert language.TITLE
    assert isinstance(language.missing(), list)


def test_every_language_has_a_flag():
    assert {module for module, _ in FLAGS.values()} == set(ORDER)
