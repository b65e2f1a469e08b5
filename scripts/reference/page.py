"""A reference page: modules with their types and functions, written as Markdown."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field


@dataclass
class Entry:
    """A type or a function, with its members."""

    name: str
    declaration: str
    doc: str = ""
    members: list[Entry] = field(default_factory=list)
    shown: list[Entry] = field(default_factory=list)  # members that the declaration shows already


@dataclass
class Module:
    name: str
    doc: str = ""
    entries: list[Entry] = field(default_factory=list)


def undocumented(modules: list[Module]) -> list[str]:
    """The names without a sentence. One of several forms of a function speaks for all of them."""
    names = []
    for module in modules:
        if module.entries and not module.doc:
            names.append(module.name)
        for entry in module.entries:
            if not entry.doc:
                names.append(f"{module.name}: {entry.name}")
            members = entry.members + entry.shown
            told = {member.name for member in members if member.doc}
            names += [
                f"{module.name}: {entry.name}: {member.name}"
                for member in members
                if member.name not in told
            ]
    return names


def one_line(text: str) -> str:
    return " ".join(text.split())


def _paragraphs(doc: str) -> str:
    return textwrap.dedent(doc).strip()


def _member(entry: Entry) -> str:
    doc = one_line(entry.doc)
    return f"- `{one_line(entry.declaration)}`" + (f"\n  {doc}" if doc else "")


def _entry(entry: Entry, fence: str) -> str:
    parts = [f"### {entry.name}", f"```{fence}\n{textwrap.dedent(entry.declaration).strip()}\n```"]
    if entry.doc:
        parts.append(_paragraphs(entry.doc))
    if entry.members:
        parts.append("\n".join(_member(member) for member in entry.members))
    return "\n\n".join(parts)


def markdown(title: str, about: str, modules: list[Module], fence: str) -> str:
    """The page of one library. `fence` is the language of its declarations."""
    parts = [f"# {title}\n{about}"]
    for module in modules:
        if not module.entries:
            continue
        parts.append(f"## {module.name}" + (f"\n{_paragraphs(module.doc)}" if module.doc else ""))
        parts += [_entry(entry, fence) for entry in module.entries]
    return "\n\n".join(parts) + "\n"
