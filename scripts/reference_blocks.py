"""The code blocks of the reference documents, as programs that run them.

sdk/conformance/reference/blocks.txt lists the blocks and what completes those that are fragments.
The code itself is read from the documents, which are not part of this tree: they lie in
../shared/seeds, or where PIE_REFERENCE says.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from reference_rows import (
    FOLDER,
    ROOT,
    harness,
    manifest,
    rust_manifest,
    typescript_project,
    write_files,
)

PROJECTS = ROOT / "build" / "reference"
# `older` is Python whose main is no coroutine: the API of document 003, whose calls block.
PROGRAMS = ("rust", "python", "older", "javascript")
_HEAD = re.compile(r"= (?P<document>\d{3}):(?P<first>\d+)-(?P<last>\d+) (?P<program>\w+)$")
_REPEATED = ("before", "after", "insert", "replace", "receives")
_IMPORT = re.compile(r"^import .*?from '[^']+';\n?", re.DOTALL | re.MULTILINE)


@dataclass
class Block:
    document: str
    first: int
    last: int
    program: str
    facts: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def name(self) -> str:
        return f"{self.document}:{self.first}-{self.last}"

    @property
    def key(self) -> str:
        return f"{self.document}_{self.first}"

    def one(self, fact: str) -> str:
        return "\n".join(self.facts.get(fact, []))

    def code(self, documents: dict[str, list[str]]) -> str:
        """The block as the document has it, completed."""
        lines = documents[self.document][self.first - 1 : self.last]
        if indent := self.one("indent"):
            depths = [int(depth) for depth in indent.split()]
            lines = ["    " * depth + line for depth, line in zip(depths, lines, strict=True)]
        for insertion in self.facts.get("insert", []):
            number, _, text = insertion.partition(" ")
            lines[int(number) - self.first] += f"\n{text}"
        text = "\n".join(lines)
        for replacement in self.facts.get("replace", []):
            old, _, new = replacement.partition("=>")
            if old.strip() not in text:
                raise ValueError(f"{self.name}: there is no '{old.strip()}' to replace")
            text = text.replace(old.strip(), new.strip())
        return text


def read_documents() -> dict[str, list[str]]:
    """The lines of the documents by number; empty if they are not here."""
    folder = Path(os.environ.get("PIE_REFERENCE") or ROOT.parent / "shared" / "seeds")
    return {
        path.name[:3]: path.read_text().splitlines() for path in sorted(folder.glob("00?_*.txt"))
    }


def read_blocks() -> list[Block]:
    blocks: list[Block] = []
    for line in (FOLDER / "blocks.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if head := _HEAD.match(line):
            first, last = int(head["first"]), int(head["last"])
            blocks.append(Block(head["document"], first, last, head["program"]))
        else:
            fact, _, text = line.partition(":")
            blocks[-1].facts[fact].append(text[1:])
    return blocks


def write_program(program: str, blocks: list[Block], documents: dict[str, list[str]]) -> Path:
    """Writes the program that runs these blocks in their order; returns its folder."""
    folder = PROJECTS / f"blocks-{program}"
    write_files(folder, {**_WRITERS[program](blocks, documents), "Pie.toml": manifest("blocks")})
    return folder


def write_entry(block: Block, documents: dict[str, list[str]]) -> Path:
    """Writes a block that is a whole program."""
    folder = PROJECTS / f"entry-{block.program}"
    code = f"{block.one('before')}\n{block.code(documents)}\n"
    files = {
        "python": lambda: {"main.py": code},
        "rust": lambda: {"Cargo.toml": rust_manifest("entry"), "src/lib.rs": code},
        "javascript": lambda: {"index.ts": code},
    }[block.program]()
    write_files(folder, {**files, "Pie.toml": manifest("entry")})
    return folder


def _python(blocks: list[Block], documents: dict[str, list[str]], is_async: bool = True) -> dict:
    functions = []
    for block in blocks:
        body = f"{block.one('before')}\n{block.code(documents)}\n{block.one('after')}\npass"
        if expected := block.one("raises"):
            body = (
                f"try:\n{textwrap.indent(body, '    ')}\nexcept PieError as error:\n"
                f"    check({expected!r} in str(error))\nelse:\n    check(False)"
            )
        head = f"{'async ' * is_async}def row_{block.key}(model):\n"
        functions.append(head + textwrap.indent(body, "    ") + "\n")
    text = harness("python.py", "\n\n".join(functions))
    if not is_async:
        text = text.replace("async def main", "def main").replace("await function", "function")
    return {"main.py": text}


def _older(blocks: list[Block], documents: dict[str, list[str]]) -> dict:
    return _python(blocks, documents, is_async=False)


def _rust(blocks: list[Block], documents: dict[str, list[str]]) -> dict:
    functions = [
        f"async fn row_{block.key}(model: &Model) -> Result<String> {{\n"
        "let model = model.clone();\n"
        f"{block.one('before')}\n{block.code(documents)}\n{block.one('after')}\nOk(String::new())\n}}\n"
        for block in blocks
    ]
    calls = "".join(
        f"    if let Err(error) = row_{block.key}(model).await "
        f'{{ errors.insert("{block.key}".into(), error); }}\n'
        for block in blocks
    )
    functions.append(
        "async fn all_rows(model: &Model, _real: bool, errors: &mut BTreeMap<String, String>) {\n"
        + calls
        + "}\n"
    )
    return {
        "Cargo.toml": rust_manifest("blocks"),
        "src/lib.rs": harness("rust.rs", "\n".join(functions)),
    }


def _javascript(blocks: list[Block], documents: dict[str, list[str]]) -> dict:
    files = {
        **typescript_project("blocks", "*.ts"),
        "check.ts": "export function check(condition: boolean): void {\n"
        "  if (!condition) throw new Error('the check does not hold');\n}\n",
    }
    index = ["import { Model, runtime } from 'inferlet';\n"]
    table = []
    for block in blocks:
        code = block.code(documents)
        imports = "".join(_IMPORT.findall(code))
        if names := block.one("import"):
            imports += f"import {{ {names} }} from 'inferlet';\n"
        files[f"b{block.key}.ts"] = (
            "import * as inferlet from 'inferlet';\nimport { check } from './check.ts';\n"
            f"{imports}\n"
            "export default async function (model: inferlet.Model): Promise<unknown> {\n"
            f"void check;\n{block.one('before')}\n{_IMPORT.sub('', code)}\n{block.one('after')}\n"
            "return undefined;\n}\n"
        )
        index.append(f"import b{block.key} from './b{block.key}.ts';\n")
        table.append(f"  '{block.key}': b{block.key},\n")
    files["index.ts"] = (
        "".join(index)
        + f"\nconst rows = {{\n{''.join(table)}}};\n\n"
        + "export async function main(): Promise<{ errors: Record<string, string> }> {\n"
        "  const model = Model.load(runtime.models()[0]!);\n"
        "  const errors: Record<string, string> = {};\n"
        "  for (const [name, run] of Object.entries(rows)) {\n"
        "    try {\n      await run(model);\n    } catch (error) {\n"
        "      errors[name] = String(error);\n    }\n  }\n  return { errors };\n}\n"
    )
    return files


_WRITERS = {"rust": _rust, "python": _python, "older": _older, "javascript": _javascript}
