"""Each test file gets a real `pie serve --dummy` with its own home folder."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import tomllib
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import browser
import configuration
import openai
import pytest
from raw_client import LIMIT_S, RawClient

ROOT = Path(__file__).resolve().parents[2]
PIE = os.environ.get("PIE_BINARY", str(ROOT / "build" / "bin" / "pie"))


class Serving:
    """A running server and its home folder."""

    def __init__(self, home: Path, *arguments: str, config: str = "", dummy: bool = True) -> None:
        self.home = home
        self.arguments = ("--dummy", *arguments) if dummy else arguments
        if (
            config or not (home / "config.toml").exists()
        ):  # else it is a restart, which keeps its config
            configuration.write(home, config)
        self.start()

    def start(self) -> None:
        self.log = open(self.home / "server.log", "a")  # noqa: SIM115
        self.process = subprocess.Popen(
            [PIE, "serve", "--port", "0", *self.arguments],
            env={**os.environ, "PIE_HOME": str(self.home)},
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        first = self.process.stdout.readline()
        found = re.search(r"(wss?://\S+)", first)
        assert found, f"the server did not start: {first}{(self.home / 'server.log').read_text()}"
        self.uri = found[1]
        self.port = int(self.uri.rsplit(":", 1)[1])

    @property
    def token(self) -> str:
        return (self.home / f"server-{self.port}.token").read_text()

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(LIMIT_S)
        self.process.stdout.close()
        self.log.close()
        return code


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Iterator[Callable[..., Serving]]:
    """Starts servers, which are stopped after the last test of the file."""
    started: list[Serving] = []

    def start_server(
        *arguments: str, config: str = "", home: Path | None = None, dummy: bool = True
    ) -> Serving:
        home = home or tmp_path_factory.mktemp("home")
        started.append(Serving(home, *arguments, config=config, dummy=dummy))
        return started[-1]

    yield start_server
    for serving in started:
        if serving.process.poll() is None:
            serving.process.kill()
            serving.wait()


@pytest.fixture(scope="module")
def server(start) -> Serving:
    return start()


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    with browser.opened() as opened:
        yield opened


@pytest.fixture
def on() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine to its end, with a time-out."""

    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(asyncio.wait_for(coroutine, LIMIT_S))

    return run


def component(name: str) -> bytes:
    path = ROOT / "build" / "guests" / f"{name}.wasm"
    assert path.is_file(), f"{path} is missing: run `make guests`"
    return path.read_bytes()


async def install_once(client: RawClient, guest: str, manifest: str) -> None:
    """Installs a guest of the tree unless the server has it. `manifest` is the text of its file."""
    package = tomllib.loads(manifest)["package"]
    known = await client.ask("check_program", name=package["name"], version=package["version"])
    if known != "true":
        await client.install(component(guest), manifest)


def key_of(server: Serving, user: str) -> str:
    """A new API key of the user."""
    made = subprocess.run(
        [PIE, "auth", "token", "create", user],
        env={**os.environ, "PIE_HOME": str(server.home)},
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout.split()[0]


def self_signed(folder: Path, key_type: str = "rsa:2048") -> tuple[Path, Path]:
    """Makes a certificate for this machine. Returns its file and that of its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", key, "-out", certificate]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", key_type, "-nodes", *subject, *files],
        check=True,
        capture_output=True,
    )
    return certificate, key


SESSION = "session@0.1.0"
SESSION_MANIFEST = (ROOT / "tests/serve/session/rust/Pie.toml").read_text()


async def session_client(server: Serving, user: str = "ada") -> RawClient:
    """Connects a client and installs the program of these tests."""
    client = await RawClient.connect(server.uri, user)
    await install_once(client, "serve-session-rust", SESSION_MANIFEST)
    return client


def with_openai(serving: Serving) -> Serving:
    """Installs the inferlet of the OpenAI API."""
    manifest = (ROOT / "inferlets/openai/Pie.toml").read_text()

    async def install():
        async with await RawClient.connect(serving.uri) as client:
            await install_once(client, "openai", manifest)

    asyncio.run(install())
    return serving


@pytest.fixture(scope="module")
def api(start) -> Serving:
    """A server with the inferlet of the OpenAI API."""
    return with_openai(start())


def client_of(serving: Serving, key: str = "unused") -> openai.OpenAI:
    """The official client of the OpenAI API, connected to a server."""
    base = f"http://127.0.0.1:{serving.port}/v1"
    return openai.OpenAI(base_url=base, api_key=key, max_retries=0, timeout=300)


@pytest.fixture(scope="module")
def client(api) -> openai.OpenAI:
    return client_of(api)


@pytest.fixture(scope="module")
def model(client) -> str:
    """The name of the first model. Its module may have another `client`."""
    return client.models.list().data[0].id
