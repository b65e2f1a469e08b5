"""Builds with a language that needs no toolchain: what bakery guarantees for every language."""

import types

import pytest

from bakery.build import build
from bakery.errors import BakeryError
from bakery.project import Manifest, Project, open_project
from bakery.report import Report
from bakery.toolchain import Missing
from bakery.wit import world_text, write_world

_COMPONENT = b"\0asm\x0d\0\x01\0 and so on"
_MODULE = b"\0asm\x01\0\0\0"


def _language(writes: bytes | None, missing=(), fails: Exception | None = None):
    def make(project, out, *, debug, report):
        report.step("baking")
        if writes is not None:
            out.write_bytes(writes)
        if fails:
            raise fails

    return types.SimpleNamespace(
        NAME="toy", TITLE="Toy", detects=lambda _: True, missing=lambda: list(missing), build=make
    )


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path, Manifest("my-app", "0.1.0", "", {}))


def _build(project, out, language):
    return build(project, out, language=language, debug=False, report=Report(quiet=True))


def _left_in(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_component_is_put_in_place(project, tmp_path):
    out = tmp_path / "new" / "my-app.wasm"
    built = _build(project, out, _language(_COMPONENT))
    assert out.read_bytes() == _COMPONENT
    assert built.size_bytes == len(_COMPONENT)
    assert _left_in(out.parent) == ["my-app.wasm"]


@pytest.mark.parametrize(
    "language",
    [
        _language(_COMPONENT, fails=BakeryError("does not compile")),
        _language(_COMPONENT, fails=KeyboardInterrupt()),
        _language(_MODULE),
        _language(None),
    ],
)
def test_a_failed_build_leaves_the_old_component_and_no_litter(project, tmp_path, language):
    out = tmp_path / "my-app.wasm"
    out.write_bytes(b"old")
    with pytest.raises((BakeryError, KeyboardInterrupt)):
        _build(project, out, language)
    assert out.read_bytes() == b"old"
    assert _left_in(tmp_path) == ["my-app.wasm"]


def test_a_missing_tool_is_named_with_its_command(project, tmp_path):
    missing = [
        Missing("oven", "it bakes", "apt install oven"),
        Missing("tin", "it holds", "apt install oven"),
    ]
    with pytest.raises(BakeryError, match="oven: it bakes") as caught:
        _build(project, tmp_path / "a.wasm", _language(_COMPONENT, missing=missing))
    assert caught.value.hint.count("apt install oven") == 1


def test_a_folder_as_output_is_refused(project, tmp_path):
    with pytest.raises(BakeryError, match="is a folder"):
        _build(project, tmp_path, _language(_COMPONENT))


def _manifest(folder, name="a"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Pie.toml").write_text(f'[package]\nname = "{name}"\nversion = "0.1.0"\n')


def test_a_source_file_is_the_entry_of_the_project_around_it(tmp_path):
    _manifest(tmp_path)
    (tmp_path / "src").mkdir()
    source = tmp_path / "src" / "other.py"
    source.write_text("")
    whole, one = open_project(tmp_path), open_project(source)
    assert (whole.root, whole.entry) == (tmp_path, None)
    assert (one.root, one.entry, one.manifest) == (tmp_path, source, whole.manifest)
    assert open_project(tmp_path / "Pie.toml") == whole


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("hello.py", "hello"),
        ("Say_Hello2.ts", "say-hello2"),
        ("bot/main.py", "bot"),
        ("bot/src/index.ts", "bot"),
        ("bot/1.cpp", "bot"),
        ("core/main.py", "my-core"),
    ],
)
def test_a_file_without_a_manifest_has_a_name_of_its_own(tmp_path, path, name):
    source = tmp_path / path
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("")
    project = open_project(source)
    assert (project.root, project.entry) == (source.parent, source)
    assert (project.manifest.name, project.manifest.version) == (name, "0.1.0")
    assert "has no Pie.toml" in project.manifest.notices[0]


@pytest.mark.parametrize(
    ("file", "text", "name", "version"),
    [
        ("Cargo.toml", '[package]\nname = "my_bot"\nversion = "1.2.3"\n', "my-bot", "1.2.3"),
        ("pyproject.toml", '[project]\nname = "Bot"\n', "bot", "0.1.0"),
        ("package.json", '{"name": "@me/bot", "version": "2.0.0"}', "bot", "2.0.0"),
        ("package.json", "not JSON", "folder", "0.1.0"),
        ("notes.txt", "", "folder", "0.1.0"),
    ],
)
def test_a_folder_without_a_manifest_has_the_name_in_its_build_file(
    tmp_path, file, text, name, version
):
    root = tmp_path / "folder"
    root.mkdir()
    (root / file).write_text(text)
    made = open_project(root).manifest
    assert (made.name, made.version) == (name, version)


def test_what_is_no_source_and_what_is_not_there(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(BakeryError, match=r"notes\.txt is not a source file"):
        open_project(tmp_path / "notes.txt")
    with pytest.raises(BakeryError, match="does not exist"):
        open_project(tmp_path / "gone")


def test_the_world_of_an_inferlet(project, tmp_path):
    into = tmp_path / "wit"
    (into / "deps" / "stale").mkdir(parents=True)
    assert write_world(project, into) == into
    assert "package pie:%my-app;" in (into / "world.wit").read_text()
    assert "world imports" in (into / "deps" / "inferlet" / "world.wit").read_text()
    assert (into / "deps" / "core").is_dir()
    assert not (into / "deps" / "stale").exists()
    assert world_text("my-app") == (into / "world.wit").read_text()
