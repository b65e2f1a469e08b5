"""Every client passes every case of client/conformance/cases.json."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator

import certificates
import pytest
import world
from table import CASES, Driver, Run
from wire import Loop

import build_clients

# Time-outs are long, so that no client is dropped when the machine stalls.
PATIENT = (
    f"[server]\ndrain_secs = 0\nauth_timeout_secs = {world.LIMIT_S}\nping_secs = {world.LIMIT_S}\n"
)
CONFIGS = {"open": PATIENT, "guarded": f"{PATIENT}[auth]\nenabled = true\n"}
DRIVERS = {
    "python": [sys.executable, str(world.ROOT / "client/conformance/driver.py")],
    "javascript": ["node", str(world.ROOT / "client/conformance/driver.mjs")],
    "rust": [str(world.ROOT / "build/clients/driver-rust")],
    "cpp": [str(world.ROOT / "build/bin/pie-client-driver")],
    "cpp-async": [str(world.ROOT / "build/bin/pie-client-driver-async")],
}


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Callable[..., world.Server]]:
    """Gives the server of a name and starts it if needed, or a new one for this case alone."""
    started: dict[object, world.Server] = {}

    def get(name: str, own: bool = False) -> world.Server:
        key = object() if own else name
        if key not in started:
            home = tmp_path_factory.mktemp("home")
            config = CONFIGS[name.removeprefix("tls-")]
            if name.startswith("tls-"):
                certificates.write(home)
                tls = f'tls_cert = "{home / "cert.pem"}"\ntls_key = "{home / "key.pem"}"\n'
                config = config.replace("[server]\n", f"[server]\n{tls}")
            started[key] = world.Server(home, config)
        return started[key]

    yield get
    for one in started.values():
        if one.process.poll() is None:
            one.end()


@pytest.fixture(scope="module")
def driver(tmp_path_factory) -> Iterator[Callable[[str], Driver]]:
    started: dict[str, Driver] = {}

    def get(language: str) -> Driver:
        if language not in started or started[language].process.poll() is not None:
            folder = tmp_path_factory.mktemp(language)
            env = {**os.environ, "PYTHONPATH": str(world.ROOT / "client/python/src")}
            if language != "python":
                built = build_clients.BUILDERS[language.removesuffix("-async")]()
                env["PIE_CLIENT_JS"] = str(built)
            started[language] = Driver(DRIVERS[language], folder, env)
        return started[language]

    yield get
    for one in started.values():
        assert one.stop() == 0


def all_runs() -> Iterator[tuple[str, str, dict]]:
    for language in DRIVERS:
        for case in CASES:
            servers = ["open"] if "fake" in case else case.get("on", ["open", "guarded"])
            for name in servers:
                yield language, name, case


@pytest.mark.parametrize(
    ("language", "name", "case"),
    [pytest.param(*run, id=f"{run[0]}-{run[1]}-{run[2]['case']}") for run in all_runs()],
)
def test_case(language, name, case, server, driver, loop, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    one = None if "fake" in case else server(name, own=case.get("own", False))
    Run(case, driver(language), loop, folder).on(one)
    shutil.rmtree(folder)
