"""The reference pages are those of the sources, and the readers of sources find what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

import build_docs
import build_reference
from reference import cpp_source, python_source, rust_source, typescript_source
from reference.page import undocumented


@pytest.mark.parametrize("page", build_reference.PAGES, ids=lambda page: page.path)
def test_pages_are_up_to_date(page):
    path = build_reference.ROOT / "docs/reference" / page.path
    assert path.read_text(encoding="utf-8") == page.text(), "run scripts/build_reference.py"


@pytest.mark.parametrize("page", build_reference.PAGES, ids=lambda page: page.path)
def test_every_public_name_has_a_sentence(page):
    assert undocumented(page.read(build_reference.ROOT / page.source)) == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (
            "python/sdk.md",
            ("### Context", "`def fork(", "### Sampler", "`@staticmethod def top_p("),
        ),
        ("rust/sdk.md", ("### Context", "`pub fn fork(", "### Sampler", "pub enum Sampler")),
        ("javascript/sdk.md", ("### Context", "`fork(): Context`", "### Sampler", "### Grammar")),
        ("cpp/sdk.md", ("### Context", "`Result<Context> Fork() const`", "### Sampler")),
        ("python/client.md", ("### PieClient", "launch_process(")),
        ("rust/client.md", ("### Client", "pub async fn launch_process(")),
        ("javascript/client.md", ("### PieClient", "launchProcess(")),
        ("cpp/client.md", ("### Client", "LaunchProcess(")),
    ],
)
def test_pages_hold_what_users_look_for(page, names):
    text = (build_reference.ROOT / "docs/reference" / page).read_text(encoding="utf-8")
    for name in names:
        assert name in text


def entries(read, folder: Path) -> dict[str, list[str]]:
    return {
        entry.name: [member.declaration for member in entry.members]
        for module in read(folder)
        for entry in module.entries
    }


def test_private_names_stay_out(tmp_path):
    (tmp_path / "a.py").write_text(
        "__all__ = ['A']\nclass A:\n    def f(self, x: int = 1, *, _raw=None) -> int: ...\n"
        "    def _g(self): ...\nclass B: ...\n"
    )
    assert entries(python_source.modules, tmp_path) == {"A": ["def f(x: int=1) -> int"]}
    (tmp_path / "lib.rs").write_text("mod a;\npub use a::{A};\nmod hidden;\n")
    (tmp_path / "a.rs").write_text(
        "pub struct A;\nimpl A {\n    pub fn f(&self) -> u32 {\n        1\n    }\n"
        "    fn g(&self) {}\n}\npub struct B;\n"
    )
    (tmp_path / "hidden.rs").write_text("pub struct C;\n")
    assert entries(rust_source.modules, tmp_path) == {"A": ["pub fn f(&self) -> u32"]}
    (tmp_path / "index.ts").write_text("export { A } from './a.ts';\n")
    (tmp_path / "a.ts").write_text(
        "export class A {\n  #x = 1;\n  /** @internal */\n  g(): void {}\n"
        "  f(options: object = {}): number {\n    return 1;\n  }\n}\nexport class B {}\n"
    )
    assert entries(typescript_source.modules, tmp_path) == {
        "A": ["f(options: object = {}): number"]
    }
    (tmp_path / "a.h").write_text(
        "// About.\nnamespace detail {\nclass D {};\n}  // namespace detail\nclass A {\n public:\n"
        "  int F() const { return 1; }  // one\n private:\n  int g_;\n};\nclass Later;\n"
    )
    assert entries(cpp_source.modules, tmp_path) == {"A": ["int F() const"]}


def test_names_without_a_sentence_are_found(tmp_path):
    (tmp_path / "a.h").write_text(
        "// About.\n#pragma once\n\nusing Alias = int;\n// Told.\n#define PIE_X(f) f\n"
        "// Told.\nclass A {\n public:\n"
        "  // Told.\n  template <class T>\n    requires std::same_as<T, int> ||\n"
        "             std::same_as<T, long>\n  void F(T t);\n  void F();\n  void G();\n};\n"
    )
    assert undocumented(cpp_source.modules(tmp_path)) == ["a.h: Alias", "a.h: A: G"]
    (tmp_path / "index.ts").write_text("export { A } from './a.ts';\n")
    (tmp_path / "a.ts").write_text(
        "/**\n * About.\n */\n/** Told. */\nexport interface A {\n  /** Told. */\n  f(): void;\n"
        "  g: number;\n}\n"
    )
    assert undocumented(typescript_source.modules(tmp_path)) == ["a: A: g"]


def test_examples_in_several_languages_become_tabs():
    text = "```python\na\n```\n\n```rust\nb\n```\n\nText.\n\n```python\nalone\n```\n"
    tabs = build_docs.with_tabs(text)
    assert tabs.count('=== "') == 2 and '=== "Rust"\n\n    ```rust\n    b\n    ```' in tabs
    assert "\n```python\nalone\n```" in tabs


def test_links_lead_to_places_in_the_site():
    root = build_docs.ROOT
    pages = set(build_docs.all_pages())
    readme = root / "README.md"
    assert (
        build_docs.with_links("[g](docs/guide/http.md#x)", readme, pages) == "[g](guide/http.md#x)"
    )
    guide = root / "docs/guide/http.md"
    assert build_docs.with_links("[a](../../README.md)", guide, pages) == "[a](../index.md)"
    assert build_docs.with_links("[m](../../Makefile)", guide, pages) == "m (`Makefile`)"
    with pytest.raises(SystemExit, match="leads nowhere"):
        build_docs.with_links("[x](nothing.md)", guide, pages)
