"""`pie new --http` in every language: the project builds, and its inferlet answers."""

from __future__ import annotations

import http.client
import subprocess
from contextlib import closing

import pytest
from conftest import ROOT
from raw_client import RawClient

BAKERY = ROOT / "build" / "bin" / "bakery"
LIMIT_S = 600  # the first build of a language compiles its SDK


def bakery(*arguments: object) -> None:
    done = subprocess.run(
        [BAKERY, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("flag", ["rust", "python", "ts", "js", "cpp"])
def test_a_new_project_answers(server, on, tmp_path, flag):
    name = f"my-{flag}-app"
    project, component = tmp_path / name, tmp_path / "app.wasm"
    bakery("create", name, "--http", f"--{flag}", "-o", project)
    bakery("build", project, "-o", component)

    async def install():
        async with await RawClient.connect(server.uri) as client:
            await client.install(component.read_bytes(), (project / "Pie.toml").read_text())

    on(install())

    def ask(method: str, body: str | None) -> tuple[int, str]:
        with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)) as wire:
            wire.request(method, f"/apps/{name}/", body)
            response = wire.getresponse()
            return response.status, response.read().decode()

    status, text = ask("POST", "Tell me about pie.")
    assert status == 200 and text.strip(), text
    assert ask("GET", None) == (400, "POST a prompt\n")
