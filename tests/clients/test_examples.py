"""The examples of docs/guide/clients.md work in every language; the JavaScript client also works in
a browser."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import world

import build_clients

sys.path.insert(0, str(world.ROOT / "client/python/src"))

from pie_client import PieClient

MANIFEST = world.ROOT / "inferlets/text-completion/rust/Pie.toml"
COMPONENT = world.ROOT / "build/guests/text-completion-rust.wasm"


PROMPT = {"prompt": "Hello", "temperature": 0}


def serving(home: Path, config: str = "", key: str | None = None) -> world.Server:
    """A server with the programs installed. `text` is the answer to the prompt."""
    server = world.Server(home, config)

    async def install() -> str:
        async with PieClient(server.uri, username="ada", key=key) as client:
            await client.install_program(COMPONENT, MANIFEST)
            await client.install_program(world.component("session"), world.MANIFESTS["session"])
            return await (await client.launch_process("text-completion", PROMPT)).text()

    server.text = asyncio.run(install())
    assert server.text
    return server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = serving(tmp_path_factory.mktemp("home"))
    yield server
    server.end()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    config, key = "[auth]\nenabled = true\n", world.private_text("ed25519")
    server = serving(tmp_path_factory.mktemp("home"), config, key)
    yield server
    server.end()


def run(*command: str | Path, **env: str) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=world.LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python(server):
    example = world.ROOT / "client/python/examples/hello.py"
    source = str(world.ROOT / "client/python/src")
    assert run(sys.executable, example, server.uri, PYTHONPATH=source) == server.text


def test_javascript(server):
    package = build_clients.javascript()
    assert run("node", package / "examples/hello.mjs", server.uri) == server.text


def test_rust(server):
    build_clients.rust()
    assert run(build_clients.OUT / "hello-rust", server.uri) == server.text


@pytest.mark.parametrize("face", ["", "-async"])
def test_cpp(server, face):
    build_clients.cpp()
    assert run(world.ROOT / f"build/bin/pie-client-hello{face}", server.uri) == server.text


SCRIPT = """
import {{ PieClient }} from '{bundle}';
const client = await PieClient.connect('{uri}', {{ username: 'ada' }});
const launched = await client.launchProcess('text-completion', {prompt});
let text = '';
for await (const part of launched.stream()) text += part;
await client.close();
console.log(text);
"""


def test_the_build_for_browsers(server, tmp_path):
    """The client, bundled for a page, needs only what browsers have, such as a WebSocket."""
    package = build_clients.javascript()
    bundle = package / "dist" / "browser.js"
    assert "node:" not in bundle.read_text()
    page = tmp_path / "page.mjs"
    page.write_text(SCRIPT.format(bundle=bundle, uri=server.uri, prompt=json.dumps(PROMPT)))
    assert run("node", "--experimental-websocket", page).strip() == server.text.strip()


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAGE = """<!doctype html><title>pie</title><script type="module">
import {{ PieClient }} from './browser.js';
const say = (text) => fetch('/said', {{ method: 'POST', body: text }});
try {{
  const client = await PieClient.connect('{uri}', {{ username: 'ada', key: `{key}` }});
  const launched = await client.launchProcess('session@0.1.0', {{ do: 'echo-file' }});
  await launched.transferFile(new Uint8Array(600000).fill(7));
  const {{ event, value }} = await launched.recv();
  const other = await client.launchProcess('text-completion', {prompt});
  await say([event, value.length, value[599999], await other.text()].join(' '));
}} catch (error) {{ await say(String(error)); }}
</script>"""


@pytest.mark.parametrize("kind", ["rsa", "ed25519", "p256", "p384"])
def test_in_a_browser(guarded, tmp_path, kind):
    """A page authenticates, sends a file, receives it back, and streams an answer."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no browser is installed. Run: scripts/setup.sh test")
    folder = build_clients.javascript() / "dist"
    key, prompt = world.private_text(kind), json.dumps(PROMPT)
    page = PAGE.format(uri=guarded.uri, key=key, prompt=prompt)
    (folder / "page.html").write_text(page)
    said: queue.Queue[str] = queue.Queue()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments) -> None:
            super().__init__(*arguments, directory=str(folder))

        def do_POST(self) -> None:
            said.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as files:
        threading.Thread(target=files.serve_forever, daemon=True).start()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
        address = f"http://127.0.0.1:{files.server_port}/page.html"
        shown = subprocess.Popen(
            [browser, *flags, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            assert said.get(timeout=world.LIMIT_S) == f"file 600000 7 {guarded.text}"
        finally:
            shown.terminate()
            shown.wait(world.LIMIT_S)
            files.shutdown()
