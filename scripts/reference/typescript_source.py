"""Reads the exported names of a TypeScript package from its sources."""

from __future__ import annotations

import re
from pathlib import Path

from reference.lines import block, declaration, indent_of
from reference.page import Entry, Module

_ITEM = re.compile(
    r"export (?:abstract |async |declare )*(class|function\*?|interface|type|const) (\w+)"
)
_MEMBER = re.compile(
    r"(?:static |async |readonly |get |set |\*)*(\[?[\w.]+\]?)\s*(?:[?!]?:|[(<=?]|$)"
)
_NOT_MEMBERS = ("return ", "if ", "for ", "const ", "let ", "private ", "protected ", "#", "}")


def modules(source: Path) -> list[Module]:
    """The modules from which index.ts exports, each with the names that it exports."""
    index = (source / "index.ts").read_text(encoding="utf-8")
    listed: dict[str, set[str] | None] = {}
    for names, file in re.findall(r"export (?:type )?\{([^}]*)\} from '\./(\w+)\.\w+'", index):
        words = set(re.findall(r"\w+", re.sub(r"\btype\b", "", names)))
        if listed.get(file, set()) is not None:
            listed[file] = (listed.get(file) or set()) | words
    for file in re.findall(r"export \* (?:as \w+ )?from '\./(\w+)\.\w+'", index):
        listed[file] = None
    return [_module(name, source / f"{name}.ts", listed[name]) for name in sorted(listed)]


def _module(name: str, path: Path, listed: set[str] | None) -> Module:
    lines = path.read_text(encoding="utf-8").splitlines()
    module = Module(name, _first_comment(lines))
    for number, line in enumerate(lines):
        item = _ITEM.match(line)
        if not item or (listed is not None and item[2] not in listed):
            continue
        doc = _doc_before(lines, number)
        if "@internal" in doc or any(entry.name == item[2] for entry in module.entries):
            continue
        end = block(lines, number)
        text, after = declaration(lines, number, "{;" if item[1] != "type" else ";")
        if item[1] == "type":
            text = "\n".join(lines[number:after])
        entry = Entry(item[2], text.removeprefix("export "), doc)
        if item[1] == "interface":
            entry.declaration = "\n".join(lines[number : end + 1]).removeprefix("export ")
            entry.shown = _members(lines, number + 1, end)
        elif item[1] == "class":
            entry.members = _members(lines, number + 1, end)
        elif item[1] == "const":
            entry.declaration = _without_value(entry.declaration)
        module.entries.append(entry)
    return module


def _members(lines: list[str], start: int, end: int) -> list[Entry]:
    found: list[Entry] = []
    for number in range(start, end):
        line = lines[number]
        text = re.sub(r"^/\*\*.*?\*/ *", "", line.strip())
        if indent_of(line) != 2 or not text or text.startswith(_NOT_MEMBERS):
            continue
        member = _MEMBER.match(text)
        if not member or text.startswith(("/", "*")):
            continue
        doc = _doc_before(lines, number) or _clean(re.findall(r"/\*\*.*?\*/", line))
        if "@internal" in doc:
            continue
        spoken = _without_value(declaration([text, *lines[number + 1 :]], 0)[0])
        if spoken.startswith("constructor(") and any(e.name == "constructor" for e in found):
            continue  # the implementation behind the declared forms
        if not any(entry.declaration == spoken for entry in found):
            found.append(Entry(member[1], spoken, doc))
    return found


def _without_value(text: str) -> str:
    """Cuts an initial value off. Those of parameters stay, and so does the head of a function."""
    if " =>" in text:
        return text.split(" =>")[0]
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and text.startswith(" = ", position):
            return text[:position]
    return text


def _doc_before(lines: list[str], number: int) -> str:
    """The comment that ends on the line before."""
    if number == 0 or not lines[number - 1].strip().endswith("*/"):
        return ""
    first = number - 1
    while first > 0 and not lines[first].strip().startswith("/**"):
        first -= 1
    return _clean(lines[first:number])


def _first_comment(lines: list[str]) -> str:
    """The comment that a file begins with, if it is one about the file."""
    end = next((number for number, line in enumerate(lines) if "*/" in line), 0)
    return _clean(lines[: end + 1]) if lines and lines[0].startswith("/**") else ""


def _clean(comment: list[str]) -> str:
    text = "\n".join(line.strip().removeprefix("/**").removesuffix("*/") for line in comment)
    return "\n".join(line.strip().removeprefix("*").strip() for line in text.splitlines()).strip()
