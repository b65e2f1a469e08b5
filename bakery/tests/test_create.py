"""New projects: every template works, and existing files are never overwritten."""

import pytest

from bakery import manifest
from bakery.cli import main
from bakery.create import create, render
from bakery.errors import BakeryError
from bakery.languages import FLAGS, detect


@pytest.mark.parametrize("flag", FLAGS)
def test_every_template_makes_a_project_of_its_language(tmp_path, flag):
    module, template = FLAGS[flag]
    root = tmp_path / "fresh"
    files = create("my-app", template, root)
    read = manifest.read(root / "Pie.toml")
    assert read.name == "my-app"
    assert "my-app" in read.description
    assert module == detect(root).NAME
    for file in files:
        assert "{{name}}" not in (root / file).read_text()
        assert "{{description}}" not in (root / file).read_text()


@pytest.mark.parametrize("kind", ["", "-http"])
@pytest.mark.parametrize("flag", FLAGS)
def test_every_project_has_tests_and_is_ready_for_git(tmp_path, flag, kind):
    create("my-app", FLAGS[flag][1] + kind, tmp_path)
    if not kind:
        assert "[[test]]" in (tmp_path / "tests/answers.toml").read_text()
    assert "*.wasm" in (tmp_path / ".gitignore").read_text()


def test_an_empty_folder_will_do(tmp_path):
    create("my-app", "rust", tmp_path)
    assert (tmp_path / "Pie.toml").is_file()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(BakeryError, match="not an empty folder"):
        create("my-app", "rust", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_the_way_is_left_alone(tmp_path):
    path = tmp_path / "my-app"
    path.write_text("x")
    with pytest.raises(BakeryError, match="already exists"):
        create("my-app", "rust", path)


def test_a_wrong_name_makes_nothing(tmp_path):
    with pytest.raises(BakeryError, match="not a valid inferlet name") as caught:
        create("My App", "rust", tmp_path / "x")
    assert caught.value.hint == "try `pie new my-app`"
    assert not (tmp_path / "x").exists()


def test_rendering_leaves_other_braces_alone():
    assert render("fn {{name}}() {{ x }} {y}", {"name": "f"}) == "fn f() {{ x }} {y}"


# Language flag → (source file of its template for HTTP, a text in it).
HANDLERS = {
    "rust": ("src/lib.rs", "#[inferlet::http_handler]"),
    "python": ("main.py", "async def handle("),
    "ts": ("index.ts", "export default handler"),
    "js": ("index.js", "export default {"),
    "cpp": ("main.cpp", "PIE_HTTP(Serve)"),
}


@pytest.mark.parametrize("flag", HANDLERS)
def test_an_http_inferlet(tmp_path, monkeypatch, capsys, flag):
    monkeypatch.chdir(tmp_path)
    assert main(["create", "answers", "--http", f"--{flag}"]) == 0
    name, text = HANDLERS[flag]
    assert text in (tmp_path / "answers" / name).read_text()
    assert "/apps/answers/" in capsys.readouterr().out
    assert FLAGS[flag][0] == detect(tmp_path / "answers").NAME
