"""Rust projects: errors name the user's line, and projects of the same name are kept apart."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from bakery.build import build
from bakery.create import create
from bakery.errors import BakeryError
from bakery.languages import load, rust_manifest
from bakery.project import open_project
from bakery.report import Report
from bakery.toolchain import sdk_root

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


def _standalone(text: str, root: Path, sdk: Path) -> dict[str, Any]:
    """The Cargo.toml that is built instead of `text`."""
    made, _ = rust_manifest.standalone(tomllib.loads(text), root, sdk, "0.1.0")
    return tomllib.loads(rust_manifest.as_toml(made))


@pytest.mark.parametrize(
    "dependency",
    [
        '[dependencies]\ninferlet.workspace = true\nserde = "1"\n',
        '[dependencies]\ninferlet = { workspace = true, features = ["x"] }\nserde = "1"\n',
        '[dependencies]\ninferlet = { path = "../../sdk" }\nserde = "1"\n',
        '[dependencies]\nserde = "1"\ninferlet = { git = "https://example.org/x" }\n',
        '[dependencies]\nserde = "1"\ninferlet.path = "../../sdk"\n',
        '[dependencies.inferlet]\npath = "../../sdk"\n\n[dependencies]\nserde = "1"\n',
        '[dependencies]\ninferlet = "0.3.1"\nserde = "1"\n',
        '[dependencies]\ninferlet = "0.2"\nserde = "1"\n',
        '[dependencies]\ninferlet = { version = "0.4", features = ["x"] }\nserde = "1"\n',
        '[dependencies]\ninferlet = { version = "0.3", features = ["x"] }\nserde = "1"\n',
    ],
)
def test_another_sdk_is_replaced_by_ours(tmp_path, dependency):
    package = '[package]\nname = "a"\nversion = "0.1.0"\n\n[lib]\npath = "src/lib.rs"\n\n'
    text = f"{package}{dependency}\n[profile.release]\n"
    sdk = tmp_path / "sdk"
    assert rust_manifest.needs_copy(tomllib.loads(text), tmp_path, sdk)
    made = _standalone(text, tmp_path, sdk)
    assert made["dependencies"]["inferlet"] == {"path": str(sdk)}
    assert made["dependencies"]["serde"] == "1"
    assert made["lib"]["path"] == str(tmp_path / "src/lib.rs")
    assert made["profile"] == {"release": {}}


@pytest.mark.parametrize(
    "dependency", ["0.3", "0.3.0", "^0.3", "~0.3", "=0.3.0", "*", ">=0.2, <0.9", {"version": "0.3"}]
)
def test_the_published_sdk_is_no_other(tmp_path, dependency):
    published = {"dependencies": {"inferlet": dependency}}
    assert not rust_manifest.names_another_sdk(published, tmp_path, tmp_path)
    ours = {"dependencies": {"inferlet": {"path": "sdk"}}}
    assert not rust_manifest.names_another_sdk(ours, tmp_path, tmp_path / "sdk")


@pytest.mark.parametrize(
    ("schemars", "features"),
    [
        ('"0.8"', []),
        ('"1"', ["inferlet/schemars-1"]),
        ('"1.0.4"', ["inferlet/schemars-1"]),
        ('{ version = "^1.2", features = ["derive"] }', ["inferlet/schemars-1"]),
        ('{ version = "=0.8.22" }', []),
        ('">=0.8, <1"', []),
        ('"*"', ["inferlet/schemars-1"]),
        ('{ git = "https://example.org/x" }', []),
    ],
)
def test_the_sdk_takes_the_version_of_schemars_that_the_project_has(tmp_path, schemars, features):
    text = f'[dependencies]\ninferlet = "0.3"\nschemars = {schemars}\n'
    assert rust_manifest.sdk_features(tomllib.loads(text), tmp_path) == features


@pytest.mark.parametrize(
    ("wstd", "features"),
    [
        ('"0.5"', []),
        ('"0.5.6"', []),
        ('"0.6"', ["inferlet/wstd-0-6"]),
        ('{ version = "^0.6.8" }', ["inferlet/wstd-0-6"]),
        ('"0.10"', ["inferlet/wstd-0-6"]),
        ('">=0.5, <0.6"', []),
        ('">=0.5"', ["inferlet/wstd-0-6"]),
        ('"*"', ["inferlet/wstd-0-6"]),
        ('"1"', []),
    ],
)
def test_main_runs_inside_the_wstd_that_the_project_has(tmp_path, wstd, features):
    text = f'[dependencies]\ninferlet = "0.3"\nwstd = {wstd}\n'
    assert rust_manifest.sdk_features(tomllib.loads(text), tmp_path) == features


def test_types_of_schemars_1_are_taken(tmp_path):
    root = _project(tmp_path / "a")
    cargo_toml = root / "Cargo.toml"
    cargo_toml.write_text(
        cargo_toml.read_text().replace('inferlet = "0.3"', 'inferlet = "0.3"\nschemars = "1"')
    )
    (root / "src" / "lib.rs").write_text(_WITH_SCHEMARS)
    assert _build(root, tmp_path / "a.wasm")


_WITH_SCHEMARS = """\
use inferlet::prelude::*;

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Answer {
    value: u32,
}

/// Doubles a number.
#[inferlet::tool]
fn double(n: u32) -> u32 {
    2 * n
}

#[inferlet::main]
async fn main(max_tokens: u32) -> Result<Answer> {
    let model = Model::load("default")?;
    let mut ctx = Context::new(&model)?;
    ctx.equip(&[&double])?;
    ctx.user("Answer.").cue();
    ctx.generate(Sampler::Argmax).max_tokens(max_tokens).collect_json::<Answer>().await
}
"""


def _crate(root: Path, text: str) -> Path:
    (root / "src").mkdir(parents=True)
    (root / "Cargo.toml").write_text(f'[package]\nname = "{root.name}"\nversion = "0.1.0"\n{text}')
    (root / "src" / "lib.rs").write_text("")
    return root


def test_crates_beside_a_project_have_our_sdk_too(tmp_path, monkeypatch):
    def cache_dir(name: str) -> Path:
        (tmp_path / "cache" / name).mkdir(parents=True, exist_ok=True)
        return tmp_path / "cache" / name

    monkeypatch.setattr(rust_manifest, "cache_dir", cache_dir)
    sdk = tmp_path / "sdk"
    _crate(tmp_path / "plain", "")
    _crate(tmp_path / "deep", '[dependencies]\ninferlet = { path = "../theirs" }\n')
    helper = '[dependencies]\ndeep = { path = "../deep" }\n[dev-dependencies]\nhelper.path = "."\n'
    _crate(tmp_path / "helper", helper)
    text = (
        '[package]\nname = "a"\n\n[dependencies]\ninferlet = "0.3"\nplain = { path = "../plain" }\n'
        'helper = { path = "../helper", features = ["x"] }\n'
    )
    root = tmp_path / "a"
    assert rust_manifest.needs_copy(tomllib.loads(text), root, sdk)
    made = _standalone(text, root, sdk)["dependencies"]
    assert made["plain"] == {"path": str(root / "../plain")}
    assert made["helper"]["features"] == ["x"]
    copy = Path(made["helper"]["path"])
    assert (copy / "src" / "lib.rs").samefile(tmp_path / "helper" / "src" / "lib.rs")
    deep = Path(tomllib.loads((copy / "Cargo.toml").read_text())["dependencies"]["deep"]["path"])
    assert tomllib.loads((deep / "Cargo.toml").read_text())["dependencies"] == {
        "inferlet": {"path": str(sdk)}
    }


def test_the_sdk_under_another_name_is_ours(tmp_path):
    text = '[dependencies]\npie = { package = "inferlet", git = "https://example.org/x" }\n'
    sdk = tmp_path / "sdk"
    assert rust_manifest.needs_copy(tomllib.loads(text), tmp_path, sdk)
    made = _standalone(text, tmp_path, sdk)
    assert made["dependencies"] == {"pie": {"package": "inferlet", "path": str(sdk)}}


_INHERITS = """\
[package]
name = "a"
version.workspace = true
edition.workspace = true
authors.workspace = true
readme.workspace = true

[lib]
crate-type = ["cdylib"]

[lints]
workspace = true

[dependencies]
inferlet.workspace = true
serde = { workspace = true, features = ["derive"] }
helper.workspace = true

[dev-dependencies]
proptest.workspace = true

[target.'cfg(unix)'.dependencies]
log.workspace = true
"""

_WORKSPACE = """\
[workspace]
members = ["inferlets/*"]
resolver = "2"

[workspace.package]
version = "4.5.6"
edition = "2018"
authors = ["Ada"]
readme = "README.md"

[workspace.dependencies]
inferlet = { path = "sdk" }
serde = { version = "1", features = ["rc"], default-features = false }
helper = { path = "helper" }
proptest = "1"
log = "0.4"

[workspace.lints.rust]
unused = "allow"
"""


def _member(tmp_path: Path, workspace: str) -> Path:
    root = tmp_path / "inferlets" / "a"
    root.mkdir(parents=True)
    (tmp_path / "Cargo.toml").write_text(workspace)
    return root


def test_what_a_workspace_shares_is_written_out(tmp_path):
    root, sdk = _member(tmp_path, _WORKSPACE), tmp_path / "elsewhere"
    assert rust_manifest.needs_copy(tomllib.loads(_INHERITS), root, sdk)
    made = _standalone(_INHERITS, root, sdk)
    assert made["package"] == {
        "name": "a", "version": "4.5.6", "edition": "2018", "authors": ["Ada"],
    }  # fmt: skip
    assert made["lints"] == {"rust": {"unused": "allow"}}
    assert made["dependencies"] == {
        "inferlet": {"path": str(sdk)},
        "serde": {"version": "1", "features": ["rc", "derive"], "default-features": False},
        "helper": {"path": str(tmp_path / "helper")},
    }
    assert made["dev-dependencies"] == {"proptest": {"version": "1"}}
    assert made["target"]["cfg(unix)"]["dependencies"] == {"log": {"version": "0.4"}}
    assert made["workspace"] == {"resolver": "2"}
    assert made["lib"] == {"crate-type": ["cdylib"]}


def test_patches_and_profiles_are_those_of_the_workspace(tmp_path):
    roots = (
        '[patch.crates-io]\ninferlet = { path = "sdk" }\nlog = { path = "vendor/log" }\n\n'
        "[profile.release]\nopt-level = 3\n"
    )
    root, sdk = _member(tmp_path, f"{_WORKSPACE}\n{roots}"), tmp_path / "elsewhere"
    text = f'{_INHERITS}\n[patch.crates-io]\nserde = {{ path = "ignored" }}\n'
    made = _standalone(text, root, sdk)
    assert made["patch"] == {"crates-io": {"log": {"path": str(tmp_path / "vendor/log")}}}
    assert made["profile"] == {"release": {"opt-level": 3}}
    assert rust_manifest.profiles(tomllib.loads(text), root) == {"release": {"opt-level": 3}}
    alone = {"profile": {"release": {"lto": True}}}
    assert rust_manifest.profiles(alone, tmp_path.parent) == alone["profile"]


def test_a_member_of_a_workspace_with_our_sdk_is_built_where_it_is(tmp_path):
    root, sdk = _member(tmp_path, _WORKSPACE), tmp_path / "sdk"
    assert not rust_manifest.needs_copy(tomllib.loads(_INHERITS), root, sdk)


def test_without_its_workspace_a_package_gets_defaults_and_notices(tmp_path):
    orphan = """\
[package]
name = "a"
version.workspace = true
edition.workspace = true
license.workspace = true

[lints]
workspace = true

[dependencies]
inferlet.workspace = true

[dev-dependencies]
proptest.workspace = true
"""
    assert rust_manifest.needs_copy(tomllib.loads(orphan), tmp_path, tmp_path / "sdk")
    made, notices = rust_manifest.standalone(
        tomllib.loads(orphan), tmp_path, tmp_path / "sdk", "7.8.9"
    )
    assert made["package"] == {"name": "a", "version": "7.8.9", "edition": "2021"}
    assert made["dependencies"] == {"inferlet": {"path": str(tmp_path / "sdk")}}
    assert made["dev-dependencies"] == {}
    assert made["lints"] == {}
    said = "\n".join(notices)
    assert 'version = "7.8.9" is used' in said
    assert 'edition = "2021" is used' in said
    assert "license is inherited" in said
    assert all(notice.startswith(str(tmp_path / "Cargo.toml")) for notice in notices)


def test_a_dependency_that_cannot_be_inherited_is_named(tmp_path):
    settings = tomllib.loads(_INHERITS)
    with pytest.raises(BakeryError, match="the dependency serde is inherited, but") as caught:
        rust_manifest.standalone(settings, tmp_path, tmp_path / "sdk", "0.1.0")
    assert 'serde = { version = "1.0", features = ["derive"] }' in caught.value.hint
    assert caught.value.where == str(tmp_path / "Cargo.toml")
    root = _member(tmp_path, _WORKSPACE.replace("serde =", "serbe ="))
    with pytest.raises(BakeryError, match=r"\[workspace.dependencies\] of .* has no serde"):
        rust_manifest.standalone(settings, root, tmp_path / "sdk", "0.1.0")


def test_a_project_without_its_workspace_is_built(tmp_path):
    root = _project(tmp_path / "a")
    cargo_toml = root / "Cargo.toml"
    text = cargo_toml.read_text().replace('inferlet = "0.3"', "inferlet.workspace = true")
    cargo_toml.write_text(text.replace('edition = "2021"', "edition.workspace = true"))
    assert text != cargo_toml.read_text()
    assert _build(root, tmp_path / "a.wasm")


def test_the_version_is_that_of_the_sdk():
    settings = tomllib.loads((sdk_root() / "rust" / "Cargo.toml").read_text())
    assert settings["workspace"]["package"]["version"] == rust_manifest.VERSION


def test_a_named_source_is_the_library(tmp_path):
    root = _project(tmp_path / "a")
    source = (root / "src" / "lib.rs").read_text()
    other = root / "src" / "other.rs"
    other.write_text(source.replace("Tell me about pie.", "prompt-of-the-other"))
    assert b"prompt-of-the-other" in _build(other, tmp_path / "other.wasm")
    assert b"Tell me about pie." in _build(root / "src" / "lib.rs", tmp_path / "a.wasm")


def test_a_source_without_a_crate_is_refused(tmp_path):
    (tmp_path / "hello.rs").write_text("")
    with pytest.raises(BakeryError, match=r"no Cargo\.toml"):
        _build(tmp_path / "hello.rs", tmp_path / "a.wasm")
