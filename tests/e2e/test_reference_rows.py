"""The SDKs do what the reference documents name, in every language, on the dummy model and on the
default model.

`make conformance` prints the same as a table. The code blocks of the documents run in
tests/serve/test_reference_blocks.py, because some of them wait for a client.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import build_guests  # noqa: E402
import conformance  # noqa: E402
from reference_blocks import read_blocks, read_documents  # noqa: E402
from reference_names import names  # noqa: E402
from reference_rows import LANGUAGES, Row, read_rows  # noqa: E402

ROWS = read_rows()
DOCUMENTS = read_documents()
needs_documents = pytest.mark.skipif(not DOCUMENTS, reason="the documents are not on this machine")


@cache
def failures(language: str, real: bool = False) -> dict[str, str]:
    return conformance.failures(language, ROWS, real=real)


@pytest.mark.parametrize("real", [False, True], ids=["dummy", "default model"])
@pytest.mark.parametrize("language", LANGUAGES.values())
def test_every_row_holds(language, real):
    by_key = {row.key: row for row in ROWS}
    failed = {by_key[key].name: text for key, text in failures(language, real).items()}
    assert failed == {}


def test_the_readme_has_the_counts():
    errors = {name: failures(name) | failures(name, True) for name in LANGUAGES.values()}
    counts = conformance.count(ROWS, errors)
    conformance.OUT.write_text(json.dumps(counts, indent=2) + "\n")
    readme = (ROOT / "README.md").read_text()
    shown = re.search(r"<!-- conformance -->\n(.*?)\n<!-- /conformance -->", readme, re.DOTALL)
    assert shown, "README.md has no table between <!-- conformance --> and <!-- /conformance -->"
    assert shown[1].strip() == conformance.table(counts)


# The line of each program that fails as it is told: what it is given, the file and the line's code.
# An Err of Rust is the program's own answer; a panic is what points at a line.
FAILING = {
    "python": ("fail", "main.py", 'raise ValueError(input["fail"])'),
    "rust": ("panic", "src/lib.rs", 'panic!("{message}");'),
    "javascript": ("fail", "index.ts", "throw new Error(input.fail)"),
    "cpp": ("fail", "src/main.cpp", "co_return Error("),
}


@pytest.mark.parametrize("language", LANGUAGES.values())
def test_an_error_points_at_the_line_of_the_program(language):
    assert failures(language) == {}
    given, file, code = FAILING[language]
    folder = conformance.PROJECTS / language
    done = conformance.run(
        build_guests.OUT / f"reference-{language}.wasm", folder / "Pie.toml", {given: "on purpose"}
    )
    lines = (folder / file).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if code in text)
    assert done.returncode == 1
    assert f"{file}:{line}" in done.stderr, done.stderr
    # The Error event has the message first. That of an error which C++ returns has nothing else.
    error = done.stderr[done.stderr.rindex("error: ") :]
    assert error.startswith("error: on purpose\n")
    assert (f"{file}:{line}" in error) == (language != "cpp"), error


@needs_documents
@pytest.mark.parametrize("document", conformance.DOCUMENTS)
def test_every_name_of_the_documents_has_a_row(document):
    cited = {cite for row in ROWS for cite in row.cites}
    lines = DOCUMENTS[document]
    missing = [
        f"{n}: {lines[n - 1]}" for n in names(document, lines) if f"{document}:{n}" not in cited
    ]
    assert missing == []


def _plain(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower())


@needs_documents
@pytest.mark.parametrize(
    "row", [row for row in ROWS if re.fullmatch(r"[\w.]+", row.name)], ids=lambda row: row.name
)
def test_the_cited_lines_name_it(row: Row):
    word = _plain(row.name.rpartition(".")[2])
    for cite in row.cites:
        document, _, number = cite.partition(":")
        assert word in _plain(DOCUMENTS[document][int(number) - 1]), cite


@needs_documents
def test_every_import_of_the_documents_is_in_a_block():
    covered = {
        f"{block.document}:{number}"
        for block in read_blocks()
        for number in range(block.first, block.last + 1)
    }
    begins = re.compile(r"^(use inferlet|from inferlet|import [{t].*inferlet|import \{$)")
    missing = [
        f"{document}:{number} {line}"
        for document, lines in DOCUMENTS.items()
        for number, line in enumerate(lines, 1)
        if begins.match(line) and f"{document}:{number}" not in covered
    ]
    assert missing == []
