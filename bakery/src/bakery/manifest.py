"""Reads Pie.toml. Every error names the line it is on."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bakery import names
from bakery.errors import BakeryError

FILE_NAME = "Pie.toml"

# The types of parameters, by the names that manifests have for them. Every value fits `any`.
# src/host/manifest.cc has the same.
PARAMETER_TYPES = {
    "string": "string", "str": "string", "text": "string",
    "int": "int", "integer": "int",
    "float": "float", "number": "float", "double": "float",
    "bool": "bool", "boolean": "bool",
    "any": "any",
}  # fmt: skip

_KNOWN = {
    "package": ("name", "version", "description", "authors"),
    "runtime": ("core", "instruct", "mcp", "zo"),
}
_SECTIONS = ("package", "runtime", "parameters", "dependencies")
_PARAMETER_KEYS = ("type", "optional", "required", "description", "default")

# The regular expression that https://semver.org recommends.
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?\Z"
)
_REQUIREMENT = re.compile(r"\s*(\^|~|=|>=|<=|>|<)?\s*(\*|\d+(\.(\d+|\*)){0,2}[0-9A-Za-z.+-]*)\s*\Z")
_HEADER = re.compile(r"\s*\[\s*([^\]]+?)\s*\]")
_ENTRY = re.compile(r"\s*(?:\"([^\"]*)\"|'([^']*)'|([A-Za-z0-9_-]+))\s*[=.]")
_PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


@dataclass(frozen=True)
class Manifest:
    """The contents of a valid Pie.toml."""

    name: str
    version: str
    description: str
    parameters: dict[str, dict[str, Any]]
    authors: tuple[str, ...] = ()
    runtime: dict[str, str] = field(default_factory=dict)
    dependencies: dict[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    """Notices about keys that are unknown and have no effect, each with its line."""


def read(path: Path) -> Manifest:
    """Parses and validates `path`."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BakeryError(f"{FILE_NAME} is not UTF-8 text", where=f"{path}:1") from None
    except OSError as error:
        raise BakeryError(f"cannot read {path}: {error.strerror}") from None
    return _Reader(path, text).manifest()


def is_version(text: str) -> bool:
    """Whether the text is a semantic version."""
    return bool(_SEMVER.match(text))


def _as_flag(name: str) -> str:
    """A parameter name like this one that can be a flag."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    made = "_".join(words).lower()
    return made if _PARAMETER_NAME.match(made) else "max_tokens"


class _Reader:
    """Reads one manifest. It keeps the text, so that errors can name their line."""

    def __init__(self, path: Path, text: str):
        self._path = path
        self._lines = text.splitlines()
        self._notices: list[str] = []
        try:
            self._data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise self._syntax_error(str(error)) from None

    def manifest(self) -> Manifest:
        self._check_sections()
        package = self._data.get("package")
        if package is None:
            raise self._fault(
                "[package] is missing", hint='it needs name = "my-app" and version = "0.1.0"'
            )
        return Manifest(
            name=self._name(package),
            version=self._version(package),
            description=self._text(package, "description"),
            parameters=self._parameters(),
            authors=self._authors(package),
            runtime=self._requirements("runtime"),
            dependencies=self._requirements("dependencies"),
            notices=tuple(self._notices),
        )

    def _check_sections(self) -> None:
        for section, value in self._data.items():
            if section not in _SECTIONS:
                self._notice(section, _SECTIONS, section, what="section")
                continue
            if not isinstance(value, dict):
                raise self._fault(f"{section} must be a table; write [{section}]", section)
            for key in value:
                if section in _KNOWN and key not in _KNOWN[section]:
                    self._notice(key, _KNOWN[section], section, key, what=f"key in [{section}]")

    def _name(self, package: dict[str, Any]) -> str:
        name = self._text(package, "name", required=True)
        if problem := names.problem_with(name):
            better = names.suggestion_for(name)
            raise self._fault(problem, "package", "name", hint=better and f'try name = "{better}"')
        return name

    def _version(self, package: dict[str, Any]) -> str:
        version = self._text(package, "version", required=True)
        if not _SEMVER.match(version):
            raise self._fault(
                f"version {version!r} is not a semantic version",
                "package",
                "version",
                hint='write three numbers, such as version = "0.1.0"',
            )
        return version

    def _text(self, package: dict[str, Any], key: str, *, required: bool = False) -> str:
        value = package.get(key)
        if value is None and not required:
            return ""
        if value is None:
            raise self._fault(f"[package] has no {key}; it is required", "package")
        if not isinstance(value, str):
            raise self._fault(f"{key} must be a string in quotes, not {value!r}", "package", key)
        return value

    def _authors(self, package: dict[str, Any]) -> tuple[str, ...]:
        authors = package.get("authors", [])
        authors = [authors] if isinstance(authors, str) else authors
        if not isinstance(authors, list) or not all(isinstance(name, str) for name in authors):
            raise self._fault(
                'authors must be a list of strings, such as ["Ada"]', "package", "authors"
            )
        return tuple(authors)

    def _parameters(self) -> dict[str, dict[str, Any]]:
        """The parameters, each with a type of ours."""
        parameters = {}
        for name, given in self._data.get("parameters", {}).items():
            at = ("parameters", name)
            if not _PARAMETER_NAME.match(name):
                self._note(
                    f"parameter {name!r} cannot be given as a flag after --, but only as a key of "
                    "--input; a flag is letters, digits, _ and -, such as " + _as_flag(name),
                    *at,
                )
            # The short form is the type alone: n = "int".
            spec = given if isinstance(given, dict) else {"type": given}
            for key in spec:
                if key not in _PARAMETER_KEYS:
                    self._notice(key, _PARAMETER_KEYS, *at, what=f"key in parameter {name}")
            for key in ("optional", "required"):
                if not isinstance(spec.get(key, False), bool):
                    raise self._fault(f"parameter {name}: {key} must be true or false", *at)
            if not isinstance(spec.get("description", ""), str):
                raise self._fault(f"parameter {name}: description must be a string in quotes", *at)
            parameters[name] = {**spec, "type": self._type(name, spec)}
            if "required" in spec:
                parameters[name].setdefault("optional", not spec["required"])
        return parameters

    def _type(self, name: str, spec: dict[str, Any]) -> str:
        """Other tools know other types. The program decides what it takes, so these are no
        errors."""
        given = spec.get("type", "any")
        if isinstance(given, str) and given in PARAMETER_TYPES:
            return PARAMETER_TYPES[given]
        self._note(
            f"parameter {name} has an unknown type: {given!r}; known are string, int, float and "
            "bool",
            "parameters",
            name,
        )
        return "any"

    def _requirements(self, section: str) -> dict[str, str]:
        requirements = {}
        for key, value in self._data.get(section, {}).items():
            if section in _KNOWN and key not in _KNOWN[section]:
                continue  # there is a notice about it
            said = f"{key} = {value!r} in [{section}] is not a version requirement"
            if section == "runtime" and isinstance(value, dict) and "version" in value:
                value = value["version"]  # the long form: core = { version = "^0.2.0" }
            if isinstance(value, str) and all(map(_REQUIREMENT.match, value.split(","))):
                requirements[key] = value
            elif section == "dependencies":  # nothing here depends on them
                self._note(f"{said}, and is ignored", section, key)
            else:
                raise self._fault(said, section, key, hint=f'write for example {key} = "^0.2.0"')
        return requirements

    def _notice(self, key: str, known: tuple[str, ...], *at: str, what: str) -> None:
        """Notes an unknown name. Other tools may know it."""
        close = difflib.get_close_matches(key, known, n=1, cutoff=0.75)  # readme is not a name
        hint = f" (did you mean {close[0]}?)" if close else ""
        self._note(f"unknown {what} is ignored: {key}{hint}", *at)

    def _note(self, text: str, *at: str) -> None:
        self._notices.append(f"{self._path}:{self._line_of(*at)}: {text}")

    def _fault(self, message: str, *at: str, hint: str | None = None) -> BakeryError:
        return BakeryError(message, hint=hint, where=f"{self._path}:{self._line_of(*at)}")

    def _syntax_error(self, text: str) -> BakeryError:
        found = re.search(r"\s*\(at (?:line (\d+), column \d+|end of document)\)", text)
        line = found.group(1) if found and found.group(1) else str(max(1, len(self._lines)))
        message = text[: found.start()] if found else text
        return BakeryError(f"not valid TOML: {message}", where=f"{self._path}:{line}")

    def _line_of(self, section: str | None = None, key: str | None = None) -> int:
        """Returns the line of a key, or of its section if the key is not found, or 1."""
        section_line = 1
        current: str | None = None
        for number, line in enumerate(self._lines, start=1):
            if header := _HEADER.match(line):
                current = header[1]
                if key and current == f"{section}.{key}":
                    return number
                if current == section:
                    section_line = number
            elif entry := _ENTRY.match(line):
                named = next(text for text in entry.groups() if text is not None)
                if key and current == section and named == key:
                    return number
                if current is None and named == section:
                    section_line = number
        return section_line
