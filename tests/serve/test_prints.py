"""One print is one event, in every language."""

from __future__ import annotations

import json

import pytest
from conftest import ROOT, component
from raw_client import RawClient

TEXTS = ["one", "", "two words", "ünï", "x" * 500]


@pytest.mark.parametrize("language", ("rust", "python", "typescript", "cpp"))
def test_a_print_is_an_event(language, server, on):
    manifest = (ROOT / "sdk/conformance" / language / "Pie.toml").read_text()
    name = next(line.split('"')[1] for line in manifest.splitlines() if line.startswith("name"))
    table = {"cases": [{"case": "print", "input": {"texts": TEXTS}}]}

    async def talk():
        async with await RawClient.connect(server.uri) as client:
            # All languages have one name.
            await client.install(component(f"conformance-{language}"), manifest, force=True)
            return await client.until_end(await client.launch(name, json.dumps(table)))

    events = on(talk())
    assert [value for kind, value in events if kind == "stdout"] == [f"{text}\n" for text in TEXTS]
    assert json.loads(events[-1][1]) == {"results": [{"case": "print", "ok": len(TEXTS)}]}
