"""Adapters travel between clients and inferlets as files."""

from __future__ import annotations

import json
import sys

from conftest import ROOT, Serving, component
from raw_client import LIMIT_S

sys.path.insert(0, str(ROOT / "client/python/src"))
from pie_client import Event, PieClient

MANIFEST = ROOT / "tests/e2e/adapter-script/Pie.toml"
NAME = "adapter-script@0.1.0"
TUNED = (
    {"do": "initialize", "rank": 2, "alpha": 4.0, "population": 4, "mu": 0.5, "sigma": 0.25},
    {"do": "update", "scores": [4, 1, 3, 2], "seeds": [7, -7, 8, -8], "max_sigma": 1.0},
)


async def run(server: Serving, user: str, sent: list[bytes], *steps: dict) -> tuple[list, list]:
    """Runs steps and sends files to the inferlet. Returns the files it sends, and its answers."""
    async with PieClient(server.uri) as client:
        await client.authenticate(user)
        if not await client.check_program(NAME):
            await client.install_program(component("e2e-adapter-script"), MANIFEST)
        process = await client.launch_process(NAME, {"steps": steps})
        for data in sent:
            await process.transfer_file(data)
        received = []
        while True:
            event, value = await process.recv(LIMIT_S)
            if event == Event.File:
                received.append(value)
            elif event == Event.Return:
                return received, json.loads(value)
            assert event != Event.Error, value


def test_a_client_downloads_and_uploads_an_adapter(start, on):
    server = start()
    create, generate = {"do": "create", "name": "a"}, {"do": "generate"}
    files, answers = on(run(server, "ada", [], create, *TUNED, generate, {"do": "export"}))
    config, tensors = files
    assert json.loads(config)["r"] == 2
    imported = (create, {"do": "generate"}, {"do": "import"}, generate)
    _, others = on(run(server, "bob", [config, tensors], *imported))
    assert others[3] == answers[3]
    assert others[1] != others[3]


def test_files_of_no_adapter_are_refused(start, on):
    server = start()
    steps = ({"do": "create", "name": "b"}, {"do": "import"}, {"do": "generate"}, {"do": "export"})
    for config, tensors, problem in (
        (b"{}", b"x" * 100, "adapter_model.safetensors"),
        (b"nonsense", b"", "adapter_config.json"),
    ):
        _, answers = on(run(server, "ada", [config, tensors], *steps))
        assert answers[1].startswith("error: ") and problem in answers[1], answers
        assert answers[2].startswith("[")  # nothing is half-loaded
        assert "no weights" in answers[3]
        on(run(server, "ada", [], {"do": "open", "name": "b"}, {"do": "destroy"}))
