"""Reads DWARF 4, as clang writes it for wasm: files, line tables and inlined calls.

Other versions are skipped. The input is clang's output, so it is trusted and not checked for forms
that clang does not write.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

_VERSION = 4
# Tags and attributes.
_COMPILE_UNIT, _INLINED = 0x11, 0x1D
_STMT_LIST, _LOW_PC, _HIGH_PC, _RANGES, _CALL_FILE, _CALL_LINE = 0x10, 0x11, 0x12, 0x55, 0x58, 0x59
_WANTED = {_STMT_LIST, _LOW_PC, _HIGH_PC, _RANGES, _CALL_FILE, _CALL_LINE}
# Forms of a fixed size.
_SIZES = {
    0x01: 4, 0x0B: 1, 0x0C: 1, 0x11: 1, 0x05: 2, 0x12: 2, 0x06: 4, 0x13: 4, 0x17: 4, 0x0E: 4,
    0x10: 4, 0x07: 8, 0x14: 8, 0x20: 8, 0x19: 0,
}  # fmt: skip
_ADDRESS, _FLAG_PRESENT = 0x01, 0x19
_BLOCKS = {0x0A: 1, 0x03: 2, 0x04: 4}
_BLOCK, _EXPRESSION, _STRING, _SIGNED, _UNSIGNED, _REFERENCE = 0x09, 0x18, 0x08, 0x0D, 0x0F, 0x15

_Abbreviation = tuple[int, bool, list[tuple[int, int]]]  # tag, has children, attributes


class _Reader:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def number(self, size: int, signed: bool = False) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little", signed=signed)

    def leb(self, signed: bool = False) -> int:
        number = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number - (1 << shift) if signed and byte & 0x40 else number

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        found = self.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return found


def units(sections: dict[bytes, bytes]) -> Iterator[Unit]:
    """Reads the compilation units from the module's custom sections."""
    info = sections.get(b".debug_info", b"")
    at = 0
    while at < len(info):
        length, version, abbreviations = struct.unpack_from("<IHI", info, at)
        if version == _VERSION:
            yield Unit(sections, at + 11, at + 4 + length, abbreviations)
        at += 4 + length


@dataclass
class Unit:
    sections: dict[bytes, bytes]
    begin: int  # of its entries
    end: int
    abbreviations_at: int
    _files: dict[int, str] = field(default_factory=dict)

    @cached_property
    def _top(self) -> dict[int, int]:
        """The attributes of the unit itself."""
        return next(values for tag, values in self._entries() if tag == _COMPILE_UNIT)

    @cached_property
    def _abbreviations(self) -> dict[int, _Abbreviation]:
        reader = _Reader(self.sections[b".debug_abbrev"], self.abbreviations_at)
        found: dict[int, _Abbreviation] = {}
        while code := reader.leb():
            tag, children = reader.leb(), bool(reader.number(1))
            attributes = []
            while (pair := (reader.leb(), reader.leb())) != (0, 0):
                attributes.append(pair)
            found[code] = (tag, children, attributes)
        return found

    def _entries(self) -> Iterator[tuple[int, dict[int, int]]]:
        """Reads the tag of each entry, and the attributes that this module uses."""
        reader = _Reader(self.sections[b".debug_info"], self.begin)
        while reader.at < self.end:
            code = reader.leb()
            if not code:
                continue
            tag, _, attributes = self._abbreviations[code]
            values = {}
            for name, form in attributes:
                value = _value(reader, form)
                if name in _WANTED:
                    # From DWARF 4 on, the end may be a length.
                    length = name == _HIGH_PC and form != _ADDRESS
                    values[name] = value + values[_LOW_PC] if length else value
            yield tag, values

    def inlined(self) -> Iterator[tuple[int, int, int, int]]:
        """Returns the ranges of inlined code, with the file and the line of each call."""
        base = self._top.get(_LOW_PC, 0)
        for tag, values in self._entries():
            if tag != _INLINED or _CALL_FILE not in values:
                continue
            call = values[_CALL_FILE], values.get(_CALL_LINE, 0)
            if _RANGES in values:
                for begin, end in self._ranges(values[_RANGES]):
                    yield base + begin, base + end, *call
            elif _LOW_PC in values and _HIGH_PC in values:
                yield values[_LOW_PC], values[_HIGH_PC], *call

    def _ranges(self, at: int) -> Iterator[tuple[int, int]]:
        reader = _Reader(self.sections[b".debug_ranges"], at)
        while (pair := (reader.number(4), reader.number(4))) != (0, 0):
            yield pair

    def files(self) -> dict[int, str]:
        """Returns the numbers and paths of the files in the unit's line table."""
        if not self._files and _STMT_LIST in self._top:
            for _ in self.rows():
                break
        return self._files

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """Returns the line table: addresses, each with the file and the line that begin there."""
        reader = _Reader(self.sections[b".debug_line"], self._top.get(_STMT_LIST, 0))
        end = reader.number(4) + reader.at
        if reader.number(2) != _VERSION:
            return
        program = reader.number(4) + reader.at
        shortest, _, _ = reader.number(1), reader.number(1), reader.number(1)
        line_base, line_range = reader.number(1, signed=True), reader.number(1)
        special = reader.number(1)  # the first special code
        arguments = [reader.number(1) for _ in range(special - 1)]
        folders = [""]
        while folder := reader.text():
            folders.append(folder)
        number = 0
        while name := reader.text():
            number += 1
            folder = folders[reader.leb()]
            reader.leb(), reader.leb()  # skip the time and the size
            self._files[number] = f"{folder}/{name}" if folder else name
        reader.at = program
        address, file, line = 0, 1, 1
        while reader.at < end:
            code = reader.number(1)
            if code >= special:
                address += (code - special) // line_range * shortest
                line += line_base + (code - special) % line_range
                yield address, file, line
            elif code == 0:
                length = reader.leb()
                after = reader.at + length
                extended = reader.number(1)
                if extended == 1:  # the end of a sequence
                    address, file, line = 0, 1, 1
                elif extended == 2:
                    address = reader.number(4)
                reader.at = after
            elif code == 1:
                yield address, file, line
            elif code == 2:
                address += reader.leb() * shortest
            elif code == 3:
                line += reader.leb(signed=True)
            elif code == 4:
                file = reader.leb()
            elif code == 8:
                address += (255 - special) // line_range * shortest
            elif code == 9:
                address += reader.number(2)
            else:
                for _ in range(arguments[code - 1]):
                    reader.leb()


def _value(reader: _Reader, form: int) -> int:
    """Reads an attribute. Attributes that are not numbers read as 0."""
    if (size := _SIZES.get(form)) is not None:
        return reader.number(size) if form != _FLAG_PRESENT else 1
    if form in (_UNSIGNED, _REFERENCE):
        return reader.leb()
    if form == _SIGNED:
        return reader.leb(signed=True)
    if form == _STRING:
        reader.text()
    elif form in (_BLOCK, _EXPRESSION):
        reader.at += reader.leb()
    elif form in _BLOCKS:
        reader.at += reader.number(_BLOCKS[form])
    else:
        raise ValueError(f"unknown form of DWARF: {form:#x}")
    return 0
