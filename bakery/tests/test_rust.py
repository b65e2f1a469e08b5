"""Rust projects: errors name the user's line, and projects of the same name are kept apart."""

from pathlib import Path

import pytest

from bakery.build import build
from bakery.create import create
from bakery.errors import BakeryError
from bakery.languages import load
from bakery.project import open_project
from bakery.report import Report

rust = load("rust")
pytestmark = pytest.mark.skipif(bool(rust.missing()), reason="no Rust toolchain for components")


def _project(root: Path, prompt: str = "Tell me about pie.") -> Path:
    create("namesake", "rust", root)
    source = root / "src" / "lib.rs"
    source.write_text(source.read_text().replace("Tell me about pie.", prompt))
    return root


def _build(root: Path, out: Path) -> bytes:
    build(open_project(root), out, language=rust, debug=False, report=Report(quiet=True))
    return out.read_bytes()


def test_projects_of_one_name_do_not_take_each_others_component(tmp_path):
    first = _project(tmp_path / "a", "prompt-of-the-first")
    second = _project(tmp_path / "b", "prompt-of-the-second")
    for _ in range(2):  # the second time, cargo has nothing to do
        assert b"prompt-of-the-first" in _build(first, tmp_path / "a.wasm")
        assert b"prompt-of-the-second" in _build(second, tmp_path / "b.wasm")


def test_a_compile_error_points_at_the_line(tmp_path):
    root = _project(tmp_path / "a")
    source = root / "src" / "lib.rs"
    lines = source.read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "Context::new" in line)
    lines[number - 1] = lines[number - 1].replace("Context::new", "Context::knew")
    source.write_text("\n".join(lines))
    with pytest.raises(BakeryError, match="knew") as caught:
        _build(root, tmp_path / "a.wasm")
    assert caught.value.where == f"{root.resolve() / 'src/lib.rs'}:{number}"
    assert not (tmp_path / "a.wasm").exists()


@pytest.mark.parametrize(
    ("find", "replace", "says"),
    [
        ('crate-type = ["cdylib"]', "", "cdylib"),
        ('inferlet = "0.3"', 'inferlet = "0.3', "not valid TOML"),
        ('inferlet = "0.3"', 'inferlet = "99"', "cargo failed"),
    ],
)
def test_a_faulty_cargo_toml_is_named(tmp_path, find, replace, says):
    root = _project(tmp_path / "a")
    cargo_toml = root / "Cargo.toml"
    cargo_toml.write_text(cargo_toml.read_text().replace(find, replace))
    with pytest.raises(BakeryError, match=says) as caught:
        _build(root, tmp_path / "a.wasm")
    assert caught.value.where.startswith(str(cargo_toml.resolve()))


@pytest.mark.parametrize(
    ("here", "command"),
    [
        ({"cargo", "rustup"}, "rustup target add wasm32-wasip2"),
        ({"cargo"}, "https://sh.rustup.rs | sh -s -- -y -t wasm32-wasip2"),
        (set(), "https://sh.rustup.rs | sh -s -- -y -t wasm32-wasip2"),
    ],
)
def test_what_is_missing_is_named_with_the_command_that_adds_it(monkeypatch, here, command):
    monkeypatch.setattr(rust, "_has_target", lambda: False)
    monkeypatch.setattr(rust, "_find", lambda tool: tool if tool in here else None)
    (part,) = rust.missing()
    assert part.install.endswith(command)
