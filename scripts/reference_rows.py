"""The rows of sdk/conformance/reference: the names of the reference documents, in four languages.

A row is one function, property, option, default, event or error. It lists the lines of the
documents that name it, and has a few lines of code for each language that use it as the documents
say. A row whose values are those of the dummy model also says in each language what holds on the
default model. This module reads the rows, and writes one program for each language that runs all of
them.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "sdk" / "conformance" / "reference"
FILES = ("basics", "contexts", "generators", "passes", "constraints", "talking", "older")
# The prefix of a language's lines in a row → the language.
LANGUAGES = {"py": "python", "rs": "rust", "js": "javascript", "cpp": "cpp"}
_OLDER = "003"  # a document of the Python SDK alone

_HEAD = re.compile(
    r"= (?P<name>[^|<]+?)\s*(?:<\s*(?P<base>\w+)|\|(?P<cites>[^|]*)\|(?P<third>.*))?$"
)
_LINE = re.compile(r"(?P<language>py|rs|js|cpp)(?P<kind>[:@-]) ?(?P<text>.*)$")


@dataclass
class Row:
    key: str  # names it in the programs
    group: str  # the file
    name: str
    cites: tuple[str, ...]  # document:line
    givens: tuple[str, ...] = ()
    code: dict[str, str] = field(default_factory=dict)
    real: dict[str, str] = field(default_factory=dict)  # the code on a real model, if it differs
    excused: dict[str, str] = field(default_factory=dict)  # why a language has no such name

    @property
    def only_compiled(self) -> bool:
        """Running it would need a client or a server."""
        return "compiled" in self.givens

    @property
    def documents(self) -> set[str]:
        return {cite.partition(":")[0] for cite in self.cites}


def read_rows() -> list[Row]:
    """All rows. A row without a language's code says why, or is about the older Python API."""
    rows = []
    for group in FILES:
        for head, code in _sections(FOLDER / f"{group}.rows"):
            cites = tuple(head["cites"].split())
            row = Row(f"r{len(rows):03}", group, head["name"], cites, tuple(head["third"].split()))
            row.code, row.real, row.excused = code[":"], code["@"], code["-"]
            if row.real and row.real.keys() != row.code.keys():
                raise ValueError(f"{group}.rows: '{row.name}' has no real form in some language")
            for language in LANGUAGES.values():
                if language in row.code or language in row.excused:
                    continue
                if row.documents != {_OLDER}:
                    raise ValueError(f"{group}.rows: '{row.name}' has nothing for {language}")
                row.excused[language] = "the document is about the Python SDK"
            rows.append(row)
    return rows


# Groups the lines of a row by kind, and then by language. Kinds: `:` is code, `@` is code for a
# real model, `-` is the reason why there is no code.
_Lines = dict[str, dict[str, str]]


def _sections(path: Path) -> Iterable[tuple[dict[str, str], _Lines]]:
    sections: list[tuple[dict[str, str], _Lines]] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if head := _HEAD.match(line):
            sections.append((head.groupdict(default=""), {":": {}, "@": {}, "-": {}}))
        elif (part := _LINE.match(line)) and sections:
            into, language = sections[-1][1][part["kind"]], LANGUAGES[part["language"]]
            into[language] = (
                f"{into[language]}\n{part['text']}" if language in into else part["text"]
            )
        else:
            raise ValueError(f"{path.name}:{number}: neither a head nor a line of code: {line}")
    return sections


def _givens() -> dict[str, tuple[str, dict[str, str]]]:
    sections = _sections(FOLDER / "givens.rows")
    return {head["name"]: (head["base"], code[":"]) for head, code in sections}


def _body(row: Row, code: str, language: str, givens: dict[str, tuple[str, dict[str, str]]]) -> str:
    """Returns each thing that the row is given, once, and then the code."""
    parts: list[str] = []
    done: set[str] = set()

    def add(name: str) -> None:
        if name in done or name not in givens:
            return
        done.add(name)
        base, given = givens[name]
        if base:
            add(base)
        parts.append(given[language])

    for name in row.givens:
        add(name)
    return "\n".join([*parts, code])


@dataclass
class Program:
    """The rows that have code in one language, by their keys."""

    bodies: dict[str, str] = field(default_factory=dict)
    real: dict[str, str] = field(default_factory=dict)  # rows whose code differs on a real model
    run: list[str] = field(default_factory=list)  # other rows are only compiled
    groups: dict[str, str] = field(default_factory=dict)  # the file of each row


def write_project(language: str, folder: Path, rows: list[Row]) -> None:
    """Writes the program of a language, as a project for bakery."""
    givens = _givens()
    program = Program()
    for row in rows:
        for into, code in ((program.bodies, row.code), (program.real, row.real)):
            if language in code:
                into[row.key] = _body(row, code[language], language, givens)
    program.run = [row.key for row in rows if language in row.code and not row.only_compiled]
    program.groups = {row.key: row.group for row in rows}
    files = _WRITERS[language](program)
    write_files(folder, {**files, "Pie.toml": manifest("reference")})


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Makes the folder hold these files, and touches only those that differ."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def manifest(name: str) -> str:
    return (
        f'[package]\nname = "{name}"\nversion = "0.1.0"\ndescription = "From the reference"\n'
        'authors = []\n\n[runtime]\ncore = "^0.2.0"\n'
    )


def rust_manifest(name: str) -> str:
    return (
        f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\npublish = false\n\n'
        '[lib]\ncrate-type = ["cdylib"]\n\n[dependencies]\ninferlet = "0.3"\n'
        'schemars = "0.8"\nserde = { version = "1", features = ["derive"] }\nserde_json = "1"\n'
    )


def typescript_project(name: str, include: str) -> dict[str, str]:
    """The files that make a folder a TypeScript project of the SDK in this tree."""
    sdk = ROOT / "sdk" / "javascript"
    settings = {
        "extends": str(sdk / "tsconfig.json"),
        "compilerOptions": {
            "paths": {"inferlet": [str(sdk / "src" / "index.ts")]},
            "noUnusedLocals": False,
            "noUnusedParameters": False,
        },
        "include": [include],
    }
    package = {"name": name, "version": "0.1.0", "type": "module", "main": "index.ts"}
    return {
        "tsconfig.json": json.dumps(settings, indent=2) + "\n",
        "package.json": json.dumps(package, indent=2) + "\n",
    }


def harness(name: str, rows: str) -> str:
    """The frame of a language's program with these rows in it."""
    text = (FOLDER / "harness" / name).read_text()
    return re.sub(r"^(#|//) \{rows\}$", lambda _: rows, text, flags=re.MULTILINE)


def _python(program: Program) -> dict[str, str]:
    functions = [
        f"async def {prefix}_{key}(model):\n{textwrap.indent(body, '    ')}\n"
        for prefix, bodies in (("row", program.bodies), ("real", program.real))
        for key, body in bodies.items()
    ]
    return {"main.py": harness("python.py", "\n\n".join(functions))}


def _rust(program: Program) -> dict[str, str]:
    functions = [
        f"async fn {prefix}_{key}(model: &Model) -> Result<()> {{\n{body}\n;Ok(())\n}}\n"
        for prefix, bodies in (("row", program.bodies), ("real", program.real))
        for key, body in bodies.items()
    ]

    def call(key: str) -> str:
        if key not in program.real:
            return f"row_{key}(model).await"
        return f"if real {{ real_{key}(model).await }} else {{ row_{key}(model).await }}"

    calls = "".join(
        f'    if let Err(error) = ({{ {call(key)} }}) {{ errors.insert("{key}".into(), error); }}\n'
        for key in program.run
    )
    functions.append(
        "async fn all_rows(model: &Model, real: bool, errors: &mut BTreeMap<String, String>) {\n"
        + calls
        + "}\n"
    )
    library = harness("rust.rs", "\n".join(functions))
    return {"Cargo.toml": rust_manifest("reference"), "src/lib.rs": library}


def _javascript(program: Program) -> dict[str, str]:
    functions = []
    for table, bodies in (("rows", program.bodies), ("real", program.real)):
        for key, body in bodies.items():
            function = f"async (model: Model): Promise<void> => {{\n{body}\n}};"
            functions.append(
                f"{table}['{key}'] = {function}\n"
                if key in program.run
                else f"void ({function[:-1]});\n"
            )
    return {
        "index.ts": harness("javascript.ts", "\n".join(functions)),
        **typescript_project("reference", "index.ts"),
    }


def _cpp(program: Program) -> dict[str, str]:
    files = {
        "src/harness.h": (FOLDER / "harness" / "cpp.h").read_text(),
        "src/main.cpp": (FOLDER / "harness" / "cpp.cpp").read_text(),
    }
    groups = [group for group in FILES if group in program.groups.values()]
    names: dict[str, list[str]] = {"Row": [], "Real": []}
    for group in groups:
        text = '#include "harness.h"\n\n#pragma clang diagnostic ignored "-Wunused"\n\n'
        for prefix, bodies in (("Row", program.bodies), ("Real", program.real)):
            keys = [key for key in bodies if program.groups[key] == group]
            functions = "\n".join(
                f"[[maybe_unused]] Task<Result<void>> {prefix}_{key}(const Model& model) {{\n"
                f"{bodies[key]}\nco_return {{}};\n}}\n"
                for key in keys
            )
            table = ", ".join(f'{{"{key}", {prefix}_{key}}}' for key in keys if key in program.run)
            name = f"{group.capitalize()}{prefix}s"
            names[prefix].append(name)
            text += (
                f"namespace {{\n\n{functions}\n}}  // namespace\n\n"
                f"Rows {name}() {{\nreturn {{{table}}};\n}}\n"
            )
        files[f"src/{group}.cpp"] = text
    rows = '#include "harness.h"\n\n'
    for function, made in (("AllRows", names["Row"]), ("RealRows", names["Real"])):
        rows += "".join(f"Rows {name}();\n" for name in made)
        rows += f"\nRows {function}() {{\nRows all;\n"
        rows += "".join(f"all.merge({name}());\n" for name in made)
        rows += "return all;\n}\n"
    files["src/rows.cpp"] = rows
    return files


_WRITERS = {"python": _python, "rust": _rust, "javascript": _javascript, "cpp": _cpp}
