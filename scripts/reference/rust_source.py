"""Reads the public names of a Rust crate from its sources."""

from __future__ import annotations

import re
from pathlib import Path

from reference.lines import block, declaration, indent_of
from reference.page import Entry, Module

_ITEM = re.compile(r"pub (?:async |const |unsafe )*(fn|struct|enum|trait|type|const) (\w+)")
_MEMBER = re.compile(r"(?:pub )?(?:async |const )*fn (\w+)")
_WHOLE = ("enum", "type", "const")  # shown with their bodies


def modules(source: Path) -> list[Module]:
    """The modules of a crate that its lib.rs makes public, whole or by single names."""
    library = (source / "lib.rs").read_text(encoding="utf-8")
    found = []
    for name in re.findall(r"^(?:pub )?mod (\w+);", library, re.MULTILINE):
        path = source / f"{name}.rs"
        if not path.is_file():
            path = source / name / "mod.rs"
        hidden = re.search(rf"#\[doc\(hidden\)\]\s*(?:pub )?mod {name};", library)
        whole = re.search(rf"^pub mod {name};", library, re.MULTILINE)
        names = re.findall(rf"^pub use {name}::(?:\{{([^}}]*)\}}|(\w+));", library, re.MULTILINE)
        listed = {word for pair in names for word in re.findall(r"\w+", " ".join(pair))}
        if path.is_file() and not hidden and (whole or listed):
            found.append(_module(name, path, None if whole else listed))
    return sorted(found, key=lambda module: module.name)


def _module(name: str, path: Path, listed: set[str] | None) -> Module:
    lines = path.read_text(encoding="utf-8").splitlines()
    about = [line[3:].removeprefix(" ") for line in lines if line.startswith("//!")]
    module = Module(name, _plain("\n".join(about)))
    members: dict[str, list[Entry]] = {}
    number = 0
    while number < len(lines):
        line = lines[number]
        if implemented := re.match(r"impl(?:<[^{]*?>)? (\w+)(?:<[^{]*>)? (?:where .*)?\{", line):
            end = block(lines, number)
            members.setdefault(implemented[1], []).extend(_members(lines, number + 1, end, "pub "))
            number = end
        elif (item := _ITEM.match(line)) and (listed is None or item[2] in listed):
            entry = _item(lines, number, item[1], item[2])
            if entry:
                module.entries.append(entry)
            number = block(lines, number)
        number += 1
    for entry in module.entries:
        entry.members += members.get(entry.name, [])
    return module


def _item(lines: list[str], number: int, kind: str, name: str) -> Entry | None:
    doc, hidden = _doc_before(lines, number)
    if hidden:
        return None
    text, _ = declaration(lines, number, "{;" if kind != "type" else ";")
    entry = Entry(name, text, doc)
    end = block(lines, number)
    if kind in _WHOLE and end > number:
        entry.declaration = "\n".join(lines[number : end + 1])
    elif kind == "struct" and end > number:
        fields = [line for line in lines[number + 1 : end] if re.match(r"    (pub \w|///)", line)]
        if any(line.startswith("    pub") for line in fields):
            entry.declaration = "\n".join([lines[number], *fields, lines[end]])
    elif kind == "trait":
        entry.members = _members(lines, number + 1, end, "")
    return entry


def _members(lines: list[str], start: int, end: int, prefix: str) -> list[Entry]:
    found = []
    for number in range(start, end):
        line = lines[number]
        member = _MEMBER.match(line.strip())
        if indent_of(line) == 4 and member and line.strip().startswith(prefix):
            doc, hidden = _doc_before(lines, number)
            if not hidden:
                found.append(Entry(member[1], declaration(lines, number)[0], doc))
    return found


def _doc_before(lines: list[str], number: int) -> tuple[str, bool]:
    """The documentation of an item, and whether it is hidden. Attributes may stand between."""
    doc: list[str] = []
    hidden = False
    for line in map(str.strip, reversed(lines[:number])):
        if line.startswith("///"):
            doc.insert(0, line[3:].removeprefix(" "))
        elif line.startswith("#["):
            hidden |= "doc(hidden)" in line
        else:
            break
    return _plain("\n".join(doc)), hidden


def _plain(doc: str) -> str:
    """Links between names, which only rustdoc can follow, become the names."""
    return re.sub(r"\[(`[^`]+`)\](?:\([\w:]+\))?", r"\1", doc)
