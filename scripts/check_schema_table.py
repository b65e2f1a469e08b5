#!/usr/bin/env python3
"""Checks the tables of text/src/grammar/tests/schemas against the Python package `jsonschema`.

The tables say which documents a schema accepts. This script asks an independent validator
whether that is true. It needs `pip install "jsonschema[format-nongpl]"`, so it is not part of
the test suite; run it when a row is added.
"""

import json
import re
import sys
from pathlib import Path

from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.exceptions import SchemaError

TABLES = Path(__file__).parent.parent / "text/src/grammar/tests/schemas"

# Ranges of the formats that OpenAPI and schemars write on integers. The validator takes them for
# annotations.
WIDTHS = {f"int{n}": (-(2 ** (n - 1)), 2 ** (n - 1) - 1) for n in (8, 16, 32, 64)}
WIDTHS |= {f"uint{n}": (0, 2**n - 1) for n in (8, 16, 32, 64)}


# The validator only looks for an @ in an e-mail address, and knows no leap seconds.
LAX = {"email"}
UNKNOWN = ("23:59:60Z",)


def duplicates_refused(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a name occurs twice")
    return dict(pairs)


def parsed(text):
    def no_constant(name):
        raise ValueError(name)

    return json.loads(text, parse_constant=no_constant, object_pairs_hook=duplicates_refused)


def prepared(schema):
    """Writes integer formats as ranges, and patterns as Python's `re` reads them."""
    if isinstance(schema, list):
        return [prepared(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: prepared(value) for key, value in schema.items()}
    if isinstance(schema.get("format"), str) and schema["format"] in WIDTHS:
        low, high = WIDTHS[schema["format"]]
        bounds = {"minimum": low, "maximum": high, "multipleOf": 1}
        made["allOf"] = [*made.get("allOf", []), bounds]
    if isinstance(schema.get("pattern"), str):
        made["pattern"] = ecma(schema["pattern"])
    return made


def ecma(pattern):
    """An ECMA-262 pattern for `re`: ASCII classes, `$` only at the end, `.` without line ends."""
    pattern = (
        pattern.replace(r"\p{L}", r"[^\W\d_]")
        .replace(r"\p{Lu}", "[A-ZÉ]")
        .replace(r"\p{Ll}", "[a-zé]")
    )
    pattern = re.sub(r"\(\?<(?=[a-z])", "(?P<", pattern).replace(r"\/", "/")
    pattern = re.sub(r"(?<!\\)(\[\^?(?:\\.|[^\]\\])*\])|(\\.)|(\.)|(\$)", fixed, pattern)
    return pattern


def fixed(match):
    group, escape, dot, _ = match.groups()
    words = {r"\d": "[0-9]", r"\D": "[^0-9]", r"\w": "[0-9A-Za-z_]", r"\W": "[^0-9A-Za-z_]"}
    if group == r"[^\W\d_]":
        return group
    if group:
        return group.replace(r"\d", "0-9").replace(r"\w", "0-9A-Za-z_")
    if escape:
        return words.get(escape, escape)
    return r"[^\n\r\u2028\u2029]" if dot else r"\Z"


def check(row):
    """Yields what the validator holds against a row."""
    schema = row["schema"]
    old = isinstance(schema, dict) and (
        "draft-07" in schema.get("$schema", "")
        or isinstance(schema.get("items"), list)
        or "dependencies" in schema
    )
    kind = Draft7Validator if old else Draft202012Validator
    if "error" in row:
        return
    try:
        kind.check_schema(prepared(schema))
    except SchemaError as error:
        yield f"the schema is invalid: {error.message}"
        return
    validator = kind(prepared(schema), format_checker=kind.FORMAT_CHECKER)
    for key, expected in (("accept", True), ("unwritten", True), ("reject", False)):
        for text in row.get(key, []):
            try:
                valid = validator.is_valid(parsed(text))
            except ValueError:
                valid = False
            lax = isinstance(schema, dict) and schema.get("format") in LAX
            if (lax and not expected) or any(part in text for part in UNKNOWN):
                continue
            if valid != expected:
                yield f"{key}: {text}"


def main():
    faults, rows = 0, 0
    for file in sorted(TABLES.glob("*.json")):
        for row in json.loads(file.read_text()):
            rows += 1
            for fault in check(row):
                faults += 1
                print(f"{file.name}: {json.dumps(row['schema'], ensure_ascii=False)}\n    {fault}")
    print(f"{rows} schemas, {faults} disagreements")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
