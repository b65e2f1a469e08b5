"""The lines of the reference documents that name something: a function, property, option, event.

The documents lost their markup: a table of 000 and 002 is lines with bars, one of 001 is lines
between its head and an empty line, 003 is Markdown, and 004 is a guide, whose names are all in its
code blocks (reference_blocks.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BARS_HEAD = re.compile(r"^\||^GenStep method \||^Event type \|")
_JOINED_HEAD = re.compile(
    r"^(Method|Function|Type|Variant|Probe|Accessor|Constructor)[A-Z(a-z ]*"
    r"(Description|Notes|Meaning|Use after|Use it for)$"
)
_CALL = re.compile(r"^(?!#)[^#]*\w+\(|^\s+(Model|Context|TokenStream|Sampler|Event|ForwardPass), ?")


def names(document: str, lines: list[str]) -> Iterator[int]:
    """The numbers of the lines."""
    if document in ("000", "002"):
        for number, line in enumerate(lines, 1):
            if " | " in line and not _BARS_HEAD.match(line):
                yield number
    elif document == "001":
        in_table = False
        for number, line in enumerate(lines, 1):
            if _JOINED_HEAD.match(line):
                in_table = True
            elif not line.strip():
                in_table = False
            elif in_table:
                yield number
    elif document == "003":
        fence = ""
        for number, line in enumerate(lines, 1):
            if line.startswith("```"):
                fence = "" if fence else line[3:] or "text"
            elif (fence == "python" and _CALL.match(line)) or line.startswith("| `"):
                yield number
