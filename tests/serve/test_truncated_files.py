"""Files that are truncated while a server uses them: it goes on, and says what is damaged."""

from __future__ import annotations

import json
import os
import shutil
import urllib.request

from conftest import ROOT, Serving, install_once
from raw_client import LIMIT_S, RawClient

from bakery.toolchain import cache_dir

REMEMBER = (ROOT / "inferlets/remember/rust/Pie.toml").read_text()
OPENAI = (ROOT / "inferlets/openai/Pie.toml").read_text()


def answer(server: Serving, model: str) -> str:
    """Returns the model's answer at temperature 0."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Name three fruits."}],
        "max_tokens": 8,
        "temperature": 0,
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=LIMIT_S) as page:
        return json.load(page)["choices"][0]["message"]["content"]


def test_a_model_whose_file_is_truncated_goes_on_and_so_do_others(start, on, tmp_path):
    source = next((cache_dir("models") / "smollm2-135m-instruct").glob("*.gguf"))
    config = ""
    for name in ("cut", "whole"):
        shutil.copyfile(source, tmp_path / f"{name}.gguf")
        config += f'[model.{name}]\nhf_repo = "{tmp_path / name}.gguf"\n'
        config += f"[model.{name}.driver.options]\ntotal_pages = 64\n"
    server = start(config=config, dummy=False)

    async def install():
        async with await RawClient.connect(server.uri) as client:
            await install_once(client, "openai", OPENAI)

    on(install())
    before = answer(server, "cut")
    assert before
    os.truncate(tmp_path / "cut.gguf", 4096)
    assert answer(server, "cut") == before, "the weights were read when the server started"
    assert answer(server, "whole") == before
    assert server.process.poll() is None
    assert server.stop() == 0


def test_a_saved_context_whose_file_is_truncated_is_reported(start, on):
    server = start()

    async def say(user: str) -> tuple[str, str]:
        async with await RawClient.connect(server.uri, user) as client:
            await install_once(client, "remember-rust", REMEMBER)
            given = json.dumps({"prompt": "Hello. " * 100, "name": "chat", "max_tokens": 4})
            return (await client.until_end(await client.launch("remember@0.1.0", given)))[-1]

    assert on(say("ada"))[0] == "return"
    (file,) = server.home.rglob("*.snapshot")
    assert on(say("bob"))[0] == "return"
    os.truncate(file, file.stat().st_size // 2)
    event, text = on(say("ada"))
    assert event == "error" and "damaged" in text, text
    assert on(say("bob"))[0] == "return"
    assert server.process.poll() is None
