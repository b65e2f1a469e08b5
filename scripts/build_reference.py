#!/usr/bin/env python3
"""Writes the reference pages of the SDKs and the clients from their sources.

build_reference.py            writes docs/reference/{python,rust,javascript,cpp}/*.md
build_reference.py --check    says which pages are out of date, and changes nothing
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reference import cpp_source, python_source, rust_source, typescript_source
from reference.page import Module, markdown

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Page:
    path: str  # under docs/reference
    title: str
    source: str
    read: Callable[[Path], list[Module]]
    fence: str

    def text(self) -> str:
        about = (
            f"Made from the sources in `{self.source}` by `scripts/build_reference.py`. "
            "Do not edit this page; edit the comments there."
        )
        return markdown(self.title, about, self.read(ROOT / self.source), self.fence)


PAGES = (
    Page(
        "python/sdk.md",
        "The Python SDK",
        "sdk/python/src/inferlet",
        python_source.modules,
        "python",
    ),
    Page(
        "python/client.md",
        "The Python client",
        "client/python/src/pie_client",
        python_source.modules,
        "python",
    ),
    Page("rust/sdk.md", "The Rust SDK", "sdk/rust/inferlet/src", rust_source.modules, "rust"),
    Page("rust/client.md", "The Rust client", "client/rust/src", rust_source.modules, "rust"),
    Page(
        "javascript/sdk.md",
        "The JavaScript SDK",
        "sdk/javascript/src",
        typescript_source.modules,
        "typescript",
    ),
    Page(
        "javascript/client.md",
        "The JavaScript client",
        "client/javascript/src",
        typescript_source.modules,
        "typescript",
    ),
    Page("cpp/sdk.md", "The C++ SDK", "sdk/cpp/include/inferlet", cpp_source.modules, "cpp"),
    Page(
        "cpp/client.md",
        "The C++ client",
        "client/cpp/include/pie_client",
        cpp_source.modules,
        "cpp",
    ),
)


def write(*, check: bool) -> int:
    """Writes the pages that are out of date, or names them. Returns an exit code."""
    old = []
    for page in PAGES:
        path = ROOT / "docs" / "reference" / page.path
        text = page.text()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        old.append(page.path)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    verb = "is out of date; run scripts/build_reference.py" if check else "written"
    for path in old:
        print(f"docs/reference/{path} {verb}")
    return 1 if check and old else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    return write(check=parser.parse_args().check)


if __name__ == "__main__":
    sys.exit(main())
