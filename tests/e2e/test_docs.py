"""The documents say what the commands, headers and files say.

Marks that the documents carry:

* a shell block whose fence says `sh run` is run, in the root of the tree, with build/bin on PATH; a
  `text output` block directly after it is what it must print;
* a comment `from: PATH` before a block says that the block is that file;
* comments such as `bench` and `/bench` enclose a table (or block) that is compared with the source.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# Folders that have pages of their own.
FOLDERS = ("bakery", "bench", "client", "fuzz", "inferlets", "sdk", "src", "tests", "text", "wit")
ALL_PAGES = [
    *PAGES,
    *sorted(
        page
        for folder in FOLDERS
        for page in (ROOT / folder).rglob("*.md")
        if "node_modules" not in page.parts
    ),
]
_LIMIT_S = 120  # a run of a component that is not in the code cache compiles it first

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@dataclass(frozen=True)
class Block:
    """A fenced block: what its fence says, where it is, what the comment before it says."""

    page: Path
    line: int
    info: str
    text: str
    comment: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    found = []
    lines = page.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        if lines[number].startswith("```"):
            end = lines.index("```", number + 1)
            before = re.fullmatch(r"<!-- (.*) -->", lines[number - 1]) if number else None
            info = lines[number].removeprefix("```").strip()
            text = "\n".join(lines[number + 1 : end])
            found.append(Block(page, number + 1, info, text, before[1] if before else ""))
            number = end
        number += 1
    return tuple(found)


@cache
def prose(page: Path) -> str:
    """The page without its blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)


def marked(page: str, mark: str) -> str:
    """Returns the text between `<!-- mark -->` and its end."""
    end = mark.split(":")[0].split()[0]
    found = re.search(rf"<!-- {re.escape(mark)} -->\n(.*?)<!-- /{end} -->", text_of(page), re.S)
    assert found, f"{page} has no {mark!r}"
    return found[1]


def rows(table: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# --- commands ------------------------------------------------------------------------------------


def runnable() -> Iterator[tuple[Block, str | None]]:
    for page in PAGES:
        of_page = blocks(page)
        for index, block in enumerate(of_page):
            if block.info == "sh run":
                behind = of_page[index + 1] if index + 1 < len(of_page) else None
                shows = behind is not None and behind.info == "text output"
                yield block, behind.text if behind and shows else None


@pytest.mark.parametrize(
    ("block", "expected"), list(runnable()), ids=[str(block) for block, _ in runnable()]
)
def test_commands_do_what_is_shown(block: Block, expected: str | None, tmp_path: Path):
    environment = {
        **os.environ,
        "PATH": f"{ROOT / 'build' / 'bin'}:{os.environ['PATH']}",
        "PIE_HOME": str(tmp_path),  # not the config of the person who runs the tests
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
    if expected is not None:
        assert done.stdout.strip() == expected.strip(), str(block)


@every_page
def test_make_targets_exist(page: Path):
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.M))
    shell = "\n".join(block.text for block in blocks(page) if block.info.startswith("sh"))
    inline = " ".join(f"{words};" for words in code(prose(page)))
    named = set(re.findall(r"(?:^|[\s&;])make ([a-z][a-z-]*)", shell, re.M))
    named |= set(re.findall(r"(?:^|[\s&;])make ([a-z][a-z-]*)", inline))
    assert named <= targets, f"no such target: {sorted(named - targets)}"


def test_flags_of_pie_run_are_all_there():
    table = rows(marked("docs/guide/running.md", "flags of pie run"))
    assert {flag for row in table for flag in code(row[0])} == run_flags()


@cache
def run_flags() -> set[str]:
    declared = re.findall(r'add_(?:option|flag)\(\s*"(-[^"]+)"', text_of("src/cli/main.cc"))
    return {flag for names in declared for flag in names.split(",")}


@every_page
def test_commands_are_known(page: Path):
    """Also those that are not run: `pie` has the command, `pie run` the flags before `--`."""
    source = text_of("src/cli/main.cc") + text_of("src/cli/server_commands.cc")
    known = set(re.findall(r'(?:add_subcommand|Add)\((?:app,)?\s*"(\w+)"', source))
    shell = [block.text for block in blocks(page) if block.info.startswith("sh")]
    lines = [line for text in [*shell, *code(prose(page))] for line in text.splitlines()]
    for line in lines:
        for command, arguments in re.findall(r"(?:^|[|;&(] ?)pie ([a-z]+)((?: [^|;&#)]*)?)", line):
            assert command in known, f"no such command: {line}"
            own = f"{arguments} ".split(" -- ")[0].split()
            used = {word for word in own if re.match(r"--?[a-z]", word)}
            if command == "run":
                assert used <= run_flags(), f"no such flag: {line}"


def test_config_keys_are_those_that_are_read():
    source = text_of("src/cli/config.cc")
    read = set(re.findall(r'\.(?:Read|Get)\("(\w+)"', source)) - {"driver", "options", "scheduler"}
    config = tomllib.loads(
        marked("docs/guide/running.md", "config").replace("```toml", "").replace("```", "")
    )
    model = config["model"][0]
    driver = dict(model["driver"])
    options = driver.pop("options")
    own = set(model) - {"driver", "scheduler"}
    http = config["runtime"]["http"]
    shown = {*config["runtime"], *http, *driver, *options, *model["scheduler"], *own}
    assert shown == read


def test_mcp_config_keys_are_those_that_are_read():
    read = set(re.findall(r'\.Read\("(\w+)"', text_of("src/cli/mcp_config.cc")))
    shown = tomllib.loads(
        marked("docs/guide/mcp.md", "mcp config").replace("```toml", "").replace("```", "")
    )
    assert {key for server in shown["mcp"].values() for key in server} == read


def test_server_config_keys_are_those_that_are_read():
    read = set(re.findall(r'\.Read\("(\w+)"', text_of("src/cli/server_config.cc")))
    shown = tomllib.loads(
        marked("docs/guide/serving.md", "server config").replace("```toml", "").replace("```", "")
    )
    assert {key for table in shown.values() for key in table} == read


def test_flags_of_pie_serve_are_all_there():
    source = text_of("src/cli/server_commands.cc")
    body = source[source.index("void AddServe") : source.index("void AddAuth")]
    declared = re.findall(r'add_(?:option|flag)\(\s*"(-[^"]+)"', body)
    table = rows(marked("docs/guide/serving.md", "flags of pie serve"))
    shown = {flag for row in table for flag in code(row[0])}
    assert shown == {flag for names in declared for flag in names.split(",")}


def test_messages_are_those_of_the_codec():
    table = rows(marked("docs/reference/protocol.md", "messages"))
    tags = re.findall(r'MessageType\{"(\w+)"', text_of("src/server/message.h"))
    assert [code(row[0])[0] for row in table] == tags


@every_page
def test_toml_blocks_parse(page: Path):
    for block in blocks(page):
        if block.info == "toml":
            tomllib.loads(block.text)


# --- files ---------------------------------------------------------------------------------------


@every_page
def test_quoted_files_are_quoted_as_they_are(page: Path):
    for block in blocks(page):
        if block.comment.startswith("from: "):
            path = block.comment.removeprefix("from: ")
            assert block.text.strip() == text_of(path).strip(), f"{block} differs from {path}"


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        assert file.is_relative_to(ROOT), f"{page.name}: {target} leaves the tree"
        if anchor:
            assert anchor in anchors(file), f"{page.name}: {target}"


@cache
def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@every_page
def test_paths_in_backticks_exist(page: Path):
    tops = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")} - {"build"}
    absent = []
    for words in code(prose(page)):
        if re.search(r"[\s<>…@$:]", words) or words.split("/")[0] not in tops:
            continue
        exists = any(ROOT.glob(words)) if "*" in words else (ROOT / words).exists()
        if not exists:
            absent.append(words)
    assert not absent, f"no such file: {absent}"


@every_page
def test_nothing_of_one_machine(page: Path):
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.~])/(?:root|home|work|Users|mnt)/", text)
    assert "\t" not in text


# --- the map -------------------------------------------------------------------------------------


def test_the_map_leads_from_behaviours_to_files():
    section = text_of("ARCHITECTURE.md").split("## Where do I change …?\n")[1].split("\n## ")[0]
    entries = [row for row in rows(section) if not row[0].startswith("**")]
    assert len(entries) >= 40
    for behaviour, files in entries:
        assert code(files), f"{behaviour}: no file is named"


def test_names_in_files_of_the_map_are_there():
    """Where the map says `Name` in `file`, or `file` (`Name`), the file has the name."""
    text = text_of("ARCHITECTURE.md")
    pairs = re.findall(r"`([\w:]+)` in `([\w./]+\.\w+)`", text)
    pairs += [(name, file) for file, name in re.findall(r"`([\w./]+\.\w+)` \(`([\w:]+)`\)", text)]
    assert len(pairs) >= 10
    last = [(name.split("::")[-1], file) for name, file in pairs]
    assert not [(name, file) for name, file in last if name not in text_of(file)]


def test_the_architecture_names_every_source_folder():
    text = text_of("ARCHITECTURE.md")
    folders = [path for path in (ROOT / "src").iterdir() if path.is_dir()]
    folders += [path for path in (ROOT / "src" / "backend").rglob("*") if path.is_dir()]
    folders += [ROOT / name for name in ("bridge/src/wasm", "bridge/src/host", "text/src")]
    folders += [path.parent for path in ROOT.glob("sdk/*/README.md")]
    missing = [str(path.relative_to(ROOT)) for path in folders]
    missing = [name for name in missing if f"`{name}/" not in text and f"`{name}`" not in text]
    assert not missing


def test_the_architecture_names_every_thread():
    sources = [*ROOT.glob("src/**/*.cc"), *ROOT.glob("bridge/src/**/*.rs")]
    named = re.compile(r'(?:pthread_setname_np\(.*?|thread_name\(|\.name\()"(pie-[\w-]+)"')
    names = {name for path in sources for name in named.findall(path.read_text(encoding="utf-8"))}
    assert len(names) >= 5
    assert not [name for name in names if f"`{name}`" not in text_of("ARCHITECTURE.md")]


# --- tables --------------------------------------------------------------------------------------


def engine_keys() -> list[str]:
    return re.findall(r'results\["(\w+)"\] =', text_of("bench/bench.cc"))


def keys_of(source: str) -> list[str]:
    keys = re.search(r"^KEYS = \((.*?)^\)", text_of(source), re.S | re.M)
    keys = keys or re.search(r"^AIMS = \{(.*?)^\}", text_of(source), re.S | re.M)
    assert keys
    return re.findall(r'"(\w+)"[:,]', keys[1])


@pytest.mark.parametrize(
    ("mark", "source"),
    [
        ("bench", "bench/run.py"),
        ("bench tax", "bench/tax.py"),
        ("bench kv", "bench/kv.py"),
        ("bench serve", "bench/serve.py"),
        ("bench cpu", "bench/cpu.py"),
        ("bench adapters", "bench/adapters.py"),
        ("bench structured", "bench/structured.py"),
        ("bench sdk", "bench/sdk.py"),
        ("bench openai", "bench/openai_api.py"),
    ],
)
def test_figures_have_the_keys_and_aims_of_the_benchmarks(mark: str, source: str):
    table = rows(marked("README.md", mark))
    keys = engine_keys() if mark == "bench" else keys_of(source)
    assert [code(row[0])[0] for row in table] == keys
    aims = re.findall(r'"(\w+)": \("([<>]=)", ([\d._]+)\)', text_of(source))
    actual = {key: (sign, float(number)) for key, sign, number in aims}
    shown = {}
    for row in table:
        if row[3]:
            sign, number = row[3].split()
            shown[code(row[0])[0]] = (sign, float(number.replace(",", "")))
    assert shown == actual


@pytest.mark.parametrize(
    "header", [f"src/{f}/limits.h" for f in ("base", "host", "server", "wasm")]
)
def test_limits_are_those_of_the_headers(header: str):
    shown = {
        code(row[0])[0]: int(row[1].replace(",", ""))
        for row in rows(marked("docs/reference/limits.md", f"limits: {header}"))
    }
    assert shown == limits_of(header)


def limits_of(header: str) -> dict[str, int]:
    """Fields and constants with a value: `max_topics = 65'536`, `kValuesPerPass = 1ULL << 25`."""
    found = re.findall(r"\b(\w+) = ([\d'a-zA-Z< ]+);", text_of(header))
    assert len(found) == len(re.findall(r"^(?!\s*//).*=.*;", text_of(header), re.M))
    return {name: value_of(text) for name, text in found}


def value_of(text: str) -> int:
    number, _, shift = re.sub(r"['uUlL]", "", text).partition("<<")
    return int(number) << int(shift or 0)


def test_what_is_promised_about_availability_is_tested():
    """Each row names a file of tests, or tests that exist."""
    section = text_of("SECURITY.md").split("## Availability\n")[1].split("\n## ")[0]
    promises = [row for row in rows(section) if len(row) == 4]
    assert len(promises) >= 25
    sources = [
        path
        for pattern in (
            "src/**/*_test.cc",
            "bridge/src/**/*.rs",
            "tests/hostile/*.cc",
            "tests/**/test_*.py",
        )
        for path in ROOT.glob(pattern)
    ]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    known = set(re.findall(r"^TEST(?:_F|_P)?\(\w+,\s*(\w+)\)", texts, re.M))
    known |= set(re.findall(r"^(?:async )?def (test_\w+)", texts, re.M))
    known |= set(re.findall(r"^ *#\[test\]\n *fn (\w+)", texts, re.M))
    for shared, _, _, tests in promises:
        names = code(tests)
        assert names, f"{shared}: no test is named"
        missing = [name for name in names if "/" not in name and name.split(".")[-1] not in known]
        assert not missing, f"{shared}: no such test: {missing}"


def test_host_api_is_that_of_the_contract():
    shown: dict[str, Any] = {}
    for row in rows(marked("docs/reference/wit.md", "wit")):
        parts = [part for part in row[2].split("; ") if part]
        shown[code(row[0])[0]] = {
            (name[1] if (name := re.match(r"\*\*([\w-]+)\*\*", part)) else ""): code(part)
            for part in parts
        }
    assert shown == dict(interfaces())


def interfaces() -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Each interface of ours with its functions ("") and its resources' methods, in order."""
    for file in sorted(ROOT.glob("wit/deps/*/*.wit")):
        text = re.sub(r"//.*", "", file.read_text(encoding="utf-8"))
        package = re.search(r"package ([\w:-]+)", text)
        if package is None or not package[1].startswith("pie:"):
            continue
        for name, body in re.findall(r"^interface ([\w-]+) \{(.*?)^\}", text, re.S | re.M):
            resources = dict(re.findall(r"^  resource ([\w-]+) \{(.*?)^  \}", body, re.S | re.M))
            functions = re.findall(r"^  ([\w-]+): func", body, re.M)
            members = {"": functions} if functions else {}
            for resource, methods in resources.items():
                members[resource] = re.findall(r"^    ([\w-]+)(?::|\()", methods, re.M)
            yield f"{package[1]}/{name}", members


def test_architectures_are_those_that_are_read():
    table = rows(marked("docs/reference/models.md", "architectures"))
    shown = {name for row in table for name in code(row[1] + row[2])}
    types = re.findall(r'\{"(\w+)", Architecture::', text_of("src/model/config_json.cc"))
    names = re.findall(r'return "([\w-]+)";', text_of("src/model/config.cc"))
    assert len(types) > 10 and len(names) > 8
    assert shown == set(types) | set(names)


def test_splits_are_those_that_are_known():
    table = rows(marked("docs/reference/tokenizers.md", "splits"))
    shown = {name for row in table for name in code(row[1])}
    text = text_of("text/src/tokenizer/convert/splits.rs")
    lists = re.findall(r"names: &\[(.*?)\]", text, re.S)
    known = {name for names in lists for name in re.findall(r'"([^"]+)"', names)}
    assert len(known) > 40
    assert shown == known


def test_requirements_name_every_package_of_setup():
    packages = re.search(r"build_packages=\((.*?)\)", text_of("scripts/setup.sh"), re.S)
    assert packages
    assert set(packages[1].split()) <= set(code(prose(ROOT / "README.md")))
    for name in ("rust", "python", "node"):
        least = re.search(rf"^{name}_minimum=([\d.]+)", text_of("scripts/setup.sh"), re.M)
        assert least and f"**{name.title()} {least[1]}**" in text_of("README.md")


def test_decisions_are_numbered_and_listed():
    pages = sorted(path.name for path in ROOT.glob("docs/decisions/[0-9]*.md"))
    assert [name[:4] for name in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    for name in pages:
        text = text_of(f"docs/decisions/{name}")
        title = text.splitlines()[0].removeprefix(f"# {name[:4]}. ")
        assert f"| [{name[:4]}]({name}) | {title} |" in text_of("docs/decisions/README.md")
        assert len(text.splitlines()) <= 20, f"{name}: ten lines, not an essay"
