#!/usr/bin/env python3
"""Runs every row of the reference documents in every language, and counts. All rows run twice: on
the dummy model, and on the default model.

    conformance.py                  builds, runs, prints the tables, writes build/conformance.json
    conformance.py python rust      runs only these languages, and writes nothing

The rows are in sdk/conformance/reference (see sdk/conformance/README.md). The file is
{document: {language: {total, match}}}; a row matches if it holds on both models. Rows that a
document excuses a language from do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import build_guests
from bakery.toolchain import node_modules
from reference_rows import LANGUAGES, Row, read_rows, write_project

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "conformance.json"
PROJECTS = ROOT / "build" / "reference"
PIE = ROOT / "build" / "bin" / "pie"
DOCUMENTS = ("000", "001", "002", "003", "004")
_RUN_LIMIT_S = 240
_MESSAGE = "told to fail"

Counts = dict[str, dict[str, dict[str, int]]]


def build(language: str, rows: list[Row]) -> Path:
    """The component of a language. Fails with the compiler's words."""
    folder = PROJECTS / language
    write_project(language, folder, rows)
    if language == "javascript":
        check_types(folder)
    build_guests.OUT.mkdir(parents=True, exist_ok=True)
    outcome = build_guests.make(build_guests.Guest(f"reference-{language}", folder))
    if outcome.error:
        raise SystemExit(f"{language}: the rows do not compile\n{outcome.error}")
    return outcome.guest.out


def check_types(folder: Path) -> None:
    """The bundler drops types, so the compiler looks at them first."""
    command = [node_modules() / ".bin" / "tsc", "--noEmit", "-p", folder / "tsconfig.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"javascript: the rows do not compile\n{done.stdout}")


def run(
    component: Path, manifest: Path, given: dict[str, str | bool], *, real: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs a program of the rows on the dummy model, or on the default model."""
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "config.toml").write_text("[runtime]\nallow_fs = true\n")
        device = [] if real else ["--dummy"]
        command = [PIE, "run", *device, "--path", component, "--manifest", manifest]
        return subprocess.run(
            [*command, "--input", json.dumps(given)],
            env={**os.environ, "PIE_HOME": home},
            capture_output=True,
            text=True,
            timeout=_RUN_LIMIT_S,
            check=False,
        )


def failures(language: str, rows: list[Row], *, real: bool = False) -> dict[str, str]:
    """The rows that do not hold in a language, on one of the models: key → what went wrong."""
    component, manifest = build(language, rows), PROJECTS / language / "Pie.toml"
    done = run(component, manifest, {"real": True} if real else {}, real=real)
    if done.returncode != 0:
        raise SystemExit(f"{language}: the rows did not run\n{done.stderr}{done.stdout}")
    errors = json.loads(done.stdout)["errors"]
    if real:
        return errors
    failed = run(component, manifest, {"fail": _MESSAGE})
    if failed.returncode != 1 or _MESSAGE not in failed.stderr:
        for row in rows:
            if "failing" in row.givens:
                errors[row.key] = f"exit code {failed.returncode}: {failed.stderr}"
    return errors


def count(rows: list[Row], errors: dict[str, dict[str, str]]) -> Counts:
    counts: Counts = {}
    for document in DOCUMENTS:
        for language in errors:
            cited = [r for r in rows if document in r.documents and language in r.code]
            match = sum(1 for row in cited if row.key not in errors[language])
            counts.setdefault(document, {})[language] = {"total": len(cited), "match": match}
    return counts


def table(counts: Counts) -> str:
    """The counts as a table of the documents, in Markdown: match of total."""
    languages = list(counts[DOCUMENTS[0]])
    lines = [
        f"| document | {' | '.join(languages)} |",
        f"|---|{'---|' * len(languages)}",
    ]
    for document, by_language in counts.items():
        cells = [f"{cell['match']} of {cell['total']}" for cell in by_language.values()]
        lines.append(f"| {document} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "languages", nargs="*", metavar="LANGUAGE", choices=[[], *LANGUAGES.values()]
    )
    args = parser.parse_args()
    rows = read_rows()
    by_key = {row.key: row for row in rows}
    chosen = args.languages or list(LANGUAGES.values())
    both: dict[str, dict[str, str]] = {language: {} for language in chosen}
    for model, real in (("the dummy model", False), ("the default model", True)):
        errors = {language: failures(language, rows, real=real) for language in chosen}
        for language, failed in errors.items():
            both[language] |= failed
            for key, text in failed.items():
                row = by_key[key]
                print(f"{language}: {row.name} ({', '.join(row.cites)}): {text}")
        print(f"on {model}:\n{table(count(rows, errors))}\n", flush=True)
    if not args.languages:
        OUT.write_text(json.dumps(count(rows, both), indent=2) + "\n")
    return 1 if any(both.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
