"""What the readers of Rust, TypeScript and C++ share: finding declarations by lines.

A formatter puts one declaration on a line of its own, indents members by one step, and closes what
it opened at the same indentation. That is enough to find names without a parser of the language.
"""

from __future__ import annotations

import re


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip())


def declaration(lines: list[str], start: int, ends: str = "{;") -> tuple[str, int]:
    """The text from a line to the first of `ends` outside brackets, and the next line's number."""
    text, depth = "", 0
    opening, closing = "([<", ")]"
    if "{" not in ends:
        opening, closing = opening + "{", closing + "}"
    for number in range(start, len(lines)):
        for character in _without_comment(lines[number]).strip() + " ":
            if character in opening:
                depth += 1
            elif character in closing or (character == ">" and not text.endswith(("-", "="))):
                depth -= 1
            elif depth <= 0 and character in ends:
                return text.strip(), number + 1
            text += character
    return text.strip(), len(lines)


def _without_comment(line: str) -> str:
    return re.sub(r"/\*.*?\*/|(^|\s)//.*", "", line)


def block(lines: list[str], start: int) -> int:
    """The number of the line that closes the block which the declaration at `start` opens, or of
    the declaration itself if it opens none."""
    _, after = declaration(lines, start)
    if not lines[after - 1].rstrip().endswith("{"):
        return after - 1
    indent = indent_of(lines[start])
    for number in range(after, len(lines)):
        if lines[number].strip() and indent_of(lines[number]) <= indent:
            return number
    return len(lines) - 1
