#!/usr/bin/env python3
"""Builds the static site of all guides and references into build/site: `make docs`.

The pages are those of the tree. On the way into the site, examples that follow each other in
several languages become tabs, and links to files that are not pages become their paths. A link
that leads nowhere ends the build.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import build_reference
from bakery.toolchain import cache_dir, lock

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
CONFIG = ROOT / "build" / "docs-config" / "mkdocs.yml"
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
LANGUAGES = {
    **{"python": "Python", "rust": "Rust", "cpp": "C++"},
    **{"typescript": "TypeScript", "ts": "TypeScript", "javascript": "JavaScript"},
}
# The guides in the order in which a newcomer reads them; those that are not named follow.
GUIDES = (
    *("getting-started", "installing", "writing-inferlets", "running"),
    *("serving", "page", "clients"),
)

_LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_COMMENT = r"(?:<!--[^\n]*-->\n)?"
_TABS = re.compile(
    rf"(?:{_COMMENT}^```(?:{'|'.join(LANGUAGES)})\b[^\n]*\n(?:(?!^```).*\n)*?^```\n\s*){{2,}}",
    re.MULTILINE,
)


def place_of(page: Path) -> Path:
    """Where a page of the tree lies in the site."""
    if page == ROOT / "README.md":
        return PAGES / "index.md"
    relative = page.relative_to(ROOT)
    return PAGES / (relative.relative_to("docs") if relative.parts[0] == "docs" else relative)


def all_pages() -> list[Path]:
    return [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]


def with_tabs(text: str) -> str:
    """Puts examples that follow each other in several languages into tabs."""

    def tabs(group: re.Match[str]) -> str:
        blocks = list(_BLOCK.finditer(group[0]))
        names = [LANGUAGES[block[1]] for block in blocks]
        if len(set(names)) < len(names):
            return group[0]
        parts = []
        for name, block in zip(names, blocks, strict=True):
            body = "".join(f"    {line}\n" if line else "\n" for line in block[2].splitlines())
            parts.append(f'=== "{name}"\n\n    ```{block[1]}\n{body}    ```\n')
        return "\n".join(parts) + "\n"

    return _TABS.sub(tabs, text)


def with_links(text: str, page: Path, pages: set[Path]) -> str:
    """Leads links to pages to their places in the site. Other files of the tree become paths."""

    def link(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        address, _, anchor = target.partition("#")
        if not address or "://" in target or target.startswith("mailto:"):
            return found[0]
        file = (page.parent / address).resolve()
        if file in pages or image:
            there = place_of(file) if file in pages or file.is_relative_to(ROOT / "docs") else file
            relative = os.path.relpath(there, place_of(page).parent)
            return f"{image}[{label}]({relative}{'#' + anchor if anchor else ''})"
        if not file.exists():
            sys.exit(f"{page.relative_to(ROOT)}: the link {target} leads nowhere")
        return f"{label} (`{os.path.relpath(file, ROOT)}`)"

    # Code is not touched.
    pieces = re.split(r"(^```.*?^```$|`[^`\n]+`)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        piece if number % 2 else _LINK.sub(link, piece) for number, piece in enumerate(pieces)
    )


def title_of(page: Path) -> str:
    first = page.read_text(encoding="utf-8").splitlines()[0]
    return first.removeprefix("# ").split(":")[0].replace("`", "")


def navigation() -> list[dict]:
    """The site's menu."""

    def entries(pages: list[Path]) -> list[dict]:
        return [{title_of(page): str(place_of(page).relative_to(PAGES))} for page in pages]

    guides = sorted((ROOT / "docs/guide").glob("*.md"))
    guides.sort(key=lambda page: GUIDES.index(page.stem) if page.stem in GUIDES else len(GUIDES))
    languages = [ROOT / "docs/reference" / page.path for page in build_reference.PAGES]
    return [
        {"Pie": "index.md"},
        {"Guide": entries(guides)},
        {"Languages": entries(languages)},
        {"Reference": entries(sorted((ROOT / "docs/reference").glob("*.md")))},
        {"Inside": entries([ROOT / name for name in TOP[1:]])},
        {"Decisions": entries(sorted((ROOT / "docs/decisions").glob("*.md"), reverse=True))},
    ]


def prepare() -> None:
    """Writes the pages and the configuration that mkdocs reads."""
    shutil.rmtree(PAGES, ignore_errors=True)
    pages = set(all_pages())
    for page in pages:
        place = place_of(page)
        place.parent.mkdir(parents=True, exist_ok=True)
        text = page.read_text(encoding="utf-8")
        place.write_text(with_links(with_tabs(text), page, pages), encoding="utf-8")
    for picture in [*(ROOT / "docs").rglob("*.svg"), *(ROOT / "docs").rglob("*.png")]:
        place = place_of(picture)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, place)
    CONFIG.parent.mkdir(parents=True, exist_ok=True)
    settings = (ROOT / "docs/mkdocs.yml").read_text(encoding="utf-8")
    CONFIG.write_text(settings + "nav:\n" + _yaml(navigation(), 1), encoding="utf-8")


def _yaml(entries: list[dict], depth: int) -> str:
    lines = ""
    for entry in entries:
        ((title, target),) = entry.items()
        quoted = title.replace('"', "'")
        if isinstance(target, list):
            lines += f'{"  " * depth}- "{quoted}":\n{_yaml(target, depth + 1)}'
        else:
            lines += f'{"  " * depth}- "{quoted}": {target}\n'
    return lines


def mkdocs() -> Path:
    """The program, in an environment of its own in the cache."""
    requirements = ROOT / "docs" / "requirements.txt"
    folder = cache_dir("venv-docs")
    with lock("docs"):
        stamp = folder / ".complete"
        wanted = requirements.read_text(encoding="utf-8")
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
            print("docs: installing mkdocs", flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
            pip = [folder / "bin/python", "-m", "pip", "install", "--quiet"]
            subprocess.run([*pip, "--disable-pip-version-check", "-r", requirements], check=True)
            stamp.write_text(wanted, encoding="utf-8")
    return folder / "bin" / "mkdocs"


def main() -> int:
    if build_reference.write(check=True):
        return 1
    prepare()
    # The theme's notice about its successor does not concern a person who builds the site.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [mkdocs(), "build", "--strict", "--quiet", "-f", CONFIG]
    done = subprocess.run(command, env=environment, check=False)
    if done.returncode == 0:
        print(f"docs: open {SITE.relative_to(ROOT)}/index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
