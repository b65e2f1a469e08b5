"""Finds the line of the user's sources to which each instruction of a C++ program belongs.

The compiler writes these lines as DWARF, which is larger than the program. This module keeps the
few kilobytes of it that a backtrace needs, as the custom section `pie:lines` of the component. The
engine reads the section when the program traps (bridge/src/wasm/lines.rs). Library code that was
inlined belongs to the user's line that called it.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bakery.languages.dwarf import Unit, units

SECTION = b"pie:lines"
_FORMAT = 1
_LARGEST_SECTION = 1 << 20  # the engine ignores larger sections


@dataclass
class Module:
    """The parts of a core module that are read here."""

    custom: dict[bytes, bytes] = field(default_factory=dict)
    imported: int = 0  # functions
    bodies: list[tuple[int, int]] = field(default_factory=list)  # begin and end in the code section


def read_module(data: bytes) -> Module:
    module = Module()
    for section, body, end in _sections(data):
        if section == 0:
            at, length = leb(data, body)
            module.custom[data[at : at + length]] = data[at + length : end]
        elif section == 2:
            module.imported = _imported_functions(data, body)
        elif section == 10:
            at, count = leb(data, body)
            for _ in range(count):
                at, length = leb(data, at)
                module.bodies.append((at - body, at - body + length))
                at += length
    return module


def without_debug_information(data: bytes) -> bytes:
    """Returns the core module without the sections of DWARF. Sections of names stay, for
    backtraces.
    """
    kept, begin = [data[:8]], 8
    for section, body, end in _sections(data):
        at, length = leb(data, body) if section == 0 else (body, 0)
        if not data[at : at + length].startswith(b".debug_"):
            kept.append(data[begin:end])
        begin = end
    return b"".join(kept)


def lines_section(data: bytes, root: Path) -> bytes:
    """Returns the custom section for a component of this core module, whose sources are below
    `root`.

    The section is empty if the module has no debug information, or too much of it.
    """
    module = read_module(data)
    files: dict[str, int] = {}
    functions: dict[int, list[tuple[int, int, int]]] = {}
    starts = [start for start, _ in module.bodies]
    for unit in units(module.custom):
        own = _own_files(unit, root)
        if not own:
            continue
        # By function: callers before the functions that they call.
        inlined: dict[int, list[_Call]] = {}
        for call in _calls(unit, own):
            inlined.setdefault(bisect.bisect_right(starts, call[0]) - 1, []).append(call)
        for address, file, line in unit.rows():
            index = bisect.bisect_right(starts, address) - 1
            if index < 0 or address >= module.bodies[index][1]:
                continue
            place = (own[file], line) if file in own else _caller(inlined.get(index, []), address)
            rows = functions.setdefault(index + module.imported, [])
            if place and place[1]:
                number = files.setdefault(place[0], len(files) + 1)
                row = (address - starts[index], number, place[1])
            else:
                row = (address - starts[index], 0, 0)  # a file of a library
            rows.append(row)
    # Functions of libraries have no lines of the user.
    functions = {i: rows for i, rows in functions.items() if any(file for _, file, _ in rows)}
    payload = _encode(list(files), functions)
    if not files or len(payload) > _LARGEST_SECTION:
        return b""
    content = _leb(len(SECTION)) + SECTION + payload
    return b"\0" + _leb(len(content)) + content


def _own_files(unit: Unit, root: Path) -> dict[int, str]:
    """Returns the numbers of the user's files in a unit, with their paths from the project."""
    own = {}
    for number, path in unit.files().items():
        whole = Path(root, path).resolve()
        if whole.is_relative_to(root) and whole.is_file():
            own[number] = whole.relative_to(root).as_posix()
    return own


_Call = tuple[int, int, str, int]  # begin, end, and the user's line


def _calls(unit: Unit, own: dict[int, str]) -> Iterator[_Call]:
    """Returns the ranges of inlined code that the user's own lines called."""
    for begin, end, file, line in unit.inlined():
        if file in own:
            yield begin, end, own[file], line


def _caller(inlined: list[_Call], address: int) -> tuple[str, int] | None:
    """Returns the line that called the code at this address, from the innermost range around it."""
    found, shortest = None, 0
    for begin, end, file, line in inlined:
        if begin <= address < end and (found is None or end - begin <= shortest):
            found, shortest = (file, line), end - begin
    return found


def _encode(files: list[str], functions: dict[int, list[tuple[int, int, int]]]) -> bytes:
    """Encodes the section. All numbers are LEB128: the version, the files, and the functions in
    order. A function is the difference between its index and the previous one's, and its rows. A
    row is the difference between its offset and the previous one's, a file counted from 1 (0:
    none), and a line."""
    made = [_leb(_FORMAT), _leb(len(files))]
    for file in files:
        made += [_leb(len(file.encode())), file.encode()]
    made.append(_leb(len(functions)))
    last = 0
    for index in sorted(functions):
        rows = _shortened(sorted(functions[index]))
        made += [_leb(index - last), _leb(len(rows))]
        last, before = index, 0
        for offset, file, line in rows:
            made += [_leb(offset - before), _leb(file), _leb(line)]
            before = offset
    return b"".join(made)


def _shortened(rows: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Keeps only the rows that differ from the row before; of rows at one offset, the last."""
    kept: list[tuple[int, int, int]] = []
    for row in rows:
        if kept and kept[-1][0] == row[0]:
            kept.pop()
        if not kept or kept[-1][1:] != row[1:]:
            kept.append(row)
    return kept


def _sections(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Returns each section's id, and the offset at which its content begins and ends."""
    at = 8
    while at < len(data):
        body, size = leb(data, at + 1)
        yield data[at], body, body + size
        at = body + size


def _imported_functions(data: bytes, at: int) -> int:
    """Returns how many functions the import section names. They come first in the index space."""
    at, count = leb(data, at)
    functions = 0
    for _ in range(count):
        for _ in range(2):  # skip the module and the name
            at, length = leb(data, at)
            at += length
        kind = data[at]
        at += 1
        if kind == 0:
            at, _ = leb(data, at)
            functions += 1
        elif kind == 3:
            at += 2
        else:  # a table has a type before its limits
            at += kind == 1
            flags = data[at]
            at, _ = leb(data, at + 1)
            if flags & 1:
                at, _ = leb(data, at)
    return functions


def leb(data: bytes, at: int) -> tuple[int, int]:
    """Returns the offset after the LEB128 number at `at`, and the number."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return at, number


def _leb(number: int) -> bytes:
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
