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


def test_a_project_opens_by_folder_or_by_a_source_in_it(tmp_path):
    (tmp_path / "Pie.toml").write_text('[package]\nname = "a"\nversion = "0.1.0"\n')
    (tmp_path / "src").mkdir()
    source = tmp_path / "src" / "lib.rs"
    source.write_text("")
    assert open_project(tmp_path) == open_project(source)


def test_no_manifest_and_no_folder(tmp_path):
    with pytest.raises(BakeryError, match=r"no Pie\.toml"):
        open_project(tmp_path)
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
