"""Reads the public names of C++ headers."""

from __future__ import annotations

import re
from pathlib import Path

from reference.lines import block, declaration, indent_of
from reference.page import Entry, Module

_TYPE = re.compile(
    r"(?:template <.*> )?(class|struct|concept|enum class) (?:\[\[[^\]]*\]\] )?(\w+)"
)
_ALIAS = re.compile(r"(?:template <.*> )?using (\w+) =")
_MACRO = re.compile(r"#define (PIE_\w*[A-Z])(\([^)]*\))")
_NAME = re.compile(r"(~?\w+|operator\S+)\(")
_SKIPPED = ("#", "namespace", "}", "extern ", "friend ", "static_assert", "private:")
# Names that the SDK uses and programs do not: constructors from handles, moves, destructors, and
# the steps of co_await.
_INSIDE = re.compile(
    r"(explicit )?(\w+)\([^)]*\b(detail|raw|pie)::|~\w+\(|.*\(\w+&&( \w+)?\) noexcept|.*\bawait_"
)


def modules(include: Path) -> list[Module]:
    """The headers of a folder."""
    return [_module(path) for path in sorted(include.glob("*.h"))]


def _module(path: Path) -> Module:
    lines = path.read_text(encoding="utf-8").splitlines()
    about = []
    for line in lines:
        if not line.startswith("//"):
            break
        about.append(line[2:].rstrip())
    module = Module(path.name, _with_examples(about))
    number = len(about)
    while number < len(lines):
        line = lines[number]
        if re.match(r"namespace (\w+::)?(detail|raw)\b", line):
            number = _end_of_namespace(lines, number)
        elif macro := _MACRO.match(line):
            doc = _doc(lines, number, number + 1)
            module.entries.append(Entry(macro[1], macro[1] + macro[2], doc))
        elif line and not line[0].isspace() and not line.startswith(("//", *_SKIPPED)):
            end = block(lines, number)
            entry = _entry(lines, number, end)
            if entry and entry.name not in {found.name for found in module.entries}:
                module.entries.append(entry)
            number = end
        number += 1
    return module


def _with_examples(lines: list[str]) -> str:
    """Indented lines of a comment are an example, which Markdown indents by four spaces."""
    text: list[str] = []
    for line in lines:
        is_code = line.startswith("  ")
        if text and is_code and text[-1] and not text[-1].startswith("    "):
            text.append("")
        text.append(f"    {line[1:]}" if is_code else line.strip())
    return "\n".join(text)


def _end_of_namespace(lines: list[str], start: int) -> int:
    """A namespace says so where it closes, except one of a few lines."""
    for number in range(start, len(lines)):
        line = lines[number]
        if line.startswith("}") and ("namespace" in line or number < start + 4):
            return number
    return len(lines) - 1


def _entry(lines: list[str], number: int, end: int) -> Entry | None:
    text, after = declaration(lines, number)
    # A template's declaration may go on in the next line.
    defined = _TYPE.match(text)
    if defined and lines[after - 1].rstrip().endswith(";"):
        return None  # a forward declaration
    doc = _doc(lines, number, after)
    if defined:
        entry = Entry(defined[2], re.sub(r" : (public|private).*", "", text), doc)
        if defined[1] in ("class", "struct"):
            entry.members = _members(lines, after, end, defined[1] == "struct")
        return entry
    if alias := _ALIAS.match(text):
        return Entry(alias[1], text, doc)
    named = _NAME.search(text)
    # A name with a scope is the definition of what its class has declared.
    if not named or text.startswith("template <>") or text[: named.start()].endswith("::"):
        return None
    return Entry(named[1], text, doc)


def _members(lines: list[str], start: int, end: int, public: bool) -> list[Entry]:
    found = []
    number = start
    while number < end:
        line = lines[number].strip()
        if line in ("public:", "private:", "protected:"):
            public = line == "public:"
        elif (
            public
            and indent_of(lines[number]) == 2
            and not line.startswith(("//", *_SKIPPED, "using", "template"))
            and "= delete" not in line
            and "= default" not in line
        ):
            text, after = declaration(lines, number)
            text = text.split(" : ")[0]
            name = _NAME.search(text) or re.search(r"(\w+)(?: = .*)?$", text)
            doc = _doc(lines, number, after)
            if name and text and (doc or not _INSIDE.match(text)):
                found.append(Entry(name[1], text, doc))
            number = max(after - 1, block(lines, number))
        number += 1
    return found


def _doc(lines: list[str], number: int, after: int) -> str:
    """The comment before a declaration, and the one after it on its last line."""
    doc: list[str] = []
    for line in map(str.strip, reversed(lines[:number])):
        if not line.startswith("//"):
            if line and not doc and not re.search(r"[;{}:](\s*//.*)?$", line):
                continue  # the head of a template belongs to the declaration
            break
        doc.insert(0, line[2:].strip())
    if behind := re.search(r"[;{}]\s+// (.*)", lines[after - 1]):
        doc.append(behind[1])
    return "\n".join(doc)
