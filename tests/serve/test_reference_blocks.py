"""Every code block of the reference documents compiles and runs, in its language, on the dummy.

sdk/conformance/reference/blocks.txt lists the blocks. Those that wait for the client are sent what
they wait for.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import PIE, ROOT
from raw_client import RawClient

sys.path.insert(0, str(ROOT / "scripts"))

import build_guests
import conformance
from reference_blocks import (
    PROGRAMS,
    Block,
    read_blocks,
    read_documents,
    write_entry,
    write_program,
)

BLOCKS = read_blocks()
DOCUMENTS = read_documents()
pytestmark = pytest.mark.skipif(not DOCUMENTS, reason="the documents are not on this machine")


def built(name: str, folder) -> bytes:
    build_guests.OUT.mkdir(parents=True, exist_ok=True)
    outcome = build_guests.make(build_guests.Guest(f"reference-{name}", folder))
    assert not outcome.error, outcome.error
    return outcome.guest.out


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_blocks_run(start, on, program):
    server = start()  # the programs have one name
    blocks = [block for block in BLOCKS if block.program == program and not block.one("entry")]
    folder = write_program(program, blocks, DOCUMENTS)
    if program == "javascript":
        conformance.check_types(folder)
    component = built(f"blocks-{program}", folder)
    sent = [what for block in blocks for what in block.facts.get("receives", [])]

    async def play():
        async with await RawClient.connect(server.uri, program) as client:
            await client.install(component.read_bytes(), (folder / "Pie.toml").read_text())
            process = await client.launch("blocks@0.1.0", "{}")
            for what in sent:
                if what == "text":
                    await client.send("signal_process", process_id=process, message="stop")
                else:
                    await client.send_file(process, b"a file")
            return await client.until_end(process)

    kind, value = on(play())[-1]
    assert kind == "return", value
    assert json.loads(value)["errors"] == {}


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.one("entry")], ids=lambda b: b.name)
def test_whole_programs_run(block: Block):
    given, _, expected = block.one("entry").partition(" => ")
    folder = write_entry(block, DOCUMENTS)
    component = built(f"entry-{block.program}", folder)
    done = subprocess.run(
        [PIE, "run", "--dummy", "-p", component, "-m", folder / "Pie.toml", "--input", given],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{expected}\n"
