"""Operation of a server: health, metrics, drains, kills and logs."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import pytest
import websockets
from conftest import PIE, ROOT, SESSION, component, self_signed, session_client
from raw_client import LIMIT_S, RawClient, Refused


def get(server, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{server.port}{path}", timeout=LIMIT_S
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_healthz(server):
    assert get(server, "/healthz") == (200, "ok\n")
    assert get(server, "/nothing")[0] == 404


def test_metrics_count_what_was_done(server, on):
    async def talk():
        async with await session_client(server) as client:
            await client.until_end(
                await client.launch(SESSION, json.dumps({"do": "generate", "n": 12}))
            )

    before = dict(line.rsplit(" ", 1) for line in samples(server))
    on(talk())
    after = dict(line.rsplit(" ", 1) for line in samples(server))
    assert float(after["pie_launches_total"]) == float(before["pie_launches_total"]) + 1
    assert float(after["pie_tokens_total"]) >= float(before["pie_tokens_total"]) + 12
    assert float(after["pie_ttft_seconds_count"]) == float(before["pie_ttft_seconds_count"]) + 1
    assert float(after["pie_tpot_seconds_count"]) >= float(before["pie_tpot_seconds_count"]) + 11
    assert after['pie_ttft_seconds_bucket{le="+Inf"}'] == after["pie_ttft_seconds_count"]


def samples(server) -> list[str]:
    status, text = get(server, "/metrics")
    assert status == 200
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_banner_says_what_is_loaded_and_how_to_connect(start):
    server = start()
    lines = [server.process.stdout.readline() for _ in range(6)]
    text = "".join(lines)
    for word in ("model", "programs", "page", "auth", "connect", server.uri):
        assert word in text


def test_a_drain_lets_processes_end(start, on):
    server = start()

    async def talk():
        client = await session_client(server)
        count = json.dumps({"do": "count", "n": 20, "pause_us": 50_000})
        process = await client.launch(SESSION, count)
        assert await client.event(process) == ("stdout", "0")
        server.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        with pytest.raises(Refused, match="shutting down"):
            await client.launch(SESSION, "{}")
        return await client.until_end(process)

    events = on(talk())
    assert events[-1] == ("return", "20")
    assert server.wait() == 0


def test_processes_that_do_not_end_are_cancelled(start, on):
    server = start(config="[server]\ndrain_secs = 1\n")

    async def talk():
        client = await session_client(server)
        process = await client.launch(SESSION, json.dumps({"do": "forever"}))
        server.process.send_signal(signal.SIGTERM)
        return await client.until_end(process)

    assert on(talk()) == [("error", "cancelled")]
    assert server.wait() == 0


def test_a_second_signal_leaves_at_once(start, on):
    server = start()

    async def talk():
        client = await session_client(server)
        await client.launch(SESSION, json.dumps({"do": "forever"}))
        server.process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.3)
        server.process.send_signal(signal.SIGINT)

    on(talk())
    assert server.wait() == 130


def test_tls(start, on, tmp_path):
    cert, key = self_signed(tmp_path)
    server = start(config=f'[server]\ntls_cert = "{cert}"\ntls_key = "{key}"\n')
    assert server.uri.startswith("wss://")
    trusting = ssl.create_default_context(cafile=cert)

    async def talk():
        async with await RawClient.connect(server.uri, ssl=trusting) as client:
            assert await client.ask("ping") == "Pong"
            plain = server.uri.replace("wss", "ws")
            with pytest.raises((OSError, EOFError, websockets.WebSocketException)):
                await asyncio.wait_for(RawClient.connect(plain), LIMIT_S)
            return await client.ask("ping")

    assert on(talk()) == "Pong"
    with urllib.request.urlopen(
        f"https://127.0.0.1:{server.port}/healthz", context=trusting
    ) as got:
        assert got.read() == b"ok\n"


def test_json_logs(start):
    server = start(config="[telemetry]\njson_logs = true\n")
    server.stop()
    lines = (server.home / "server.log").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines if line.startswith("{")]
    assert events == ["serving", "stopped"]


def test_monitor_shows_what_runs(start):
    server = start("--monitor")
    time.sleep(1.2)
    server.process.send_signal(signal.SIGTERM)
    text = server.process.stdout.read()
    assert server.wait() == 0
    for word in ("instances", "pages", "tokens/s", "batch"):
        assert word in text


def test_kill_at_any_moment_loses_no_program(start, on):
    """Installs programs and kills the server at random moments, repeatedly. A program whose
    installation was confirmed is complete after a restart. Any other is complete or absent."""
    wasm = component("hello-rust")
    manifest = '[package]\nname = "hello"\nversion = "{}"\n'
    server = start()
    chance = random.Random(11)
    promised: list[str] = []
    number = 0
    for _ in range(8):

        async def install():
            nonlocal number
            client = await RawClient.connect(server.uri)
            kill = asyncio.get_running_loop().call_later(
                chance.uniform(0.02, 0.6), server.process.kill
            )
            try:
                while True:
                    number += 1
                    version = f"0.{number}.0"
                    # A custom section after the component makes its bytes differ each time.
                    other = wasm + b"\x00\x05\x04" + f"{number:04}".encode()[:4]
                    await client.install(other, manifest.format(version))
                    promised.append(version)
            except Exception:
                kill.cancel()

        on(install())
        server.process.kill()
        server.wait()
        server.start()

        async def look():
            async with await RawClient.connect(server.uri) as client:
                for version in promised:
                    assert (
                        await client.ask("check_program", name="hello", version=version) == "true"
                    )
                if promised:
                    process = await client.launch(f"hello@{promised[-1]}")
                    assert (await client.until_end(process))[-1] == ("return", "Hello, world!")

        on(look())
    assert promised
    listed = subprocess.run(
        [PIE, "inferlet", "list"],
        env={"PIE_HOME": str(server.home)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert len(listed.splitlines()) >= len(promised)


def test_programs_by_command_line_and_by_client_are_the_same(start, on):
    server = start()
    home = {"PIE_HOME": str(server.home)}

    def pie(*arguments):
        return subprocess.run(
            [PIE, *arguments], env=home, capture_output=True, text=True, check=False
        )

    guest = ROOT / "build" / "guests" / "hello-rust.wasm"
    done = pie("inferlet", "add", guest, "-m", ROOT / "inferlets/hello/rust/Pie.toml")
    assert done.returncode == 0, done.stderr

    async def talk():
        async with await RawClient.connect(server.uri) as client:
            return await client.until_end(await client.launch("hello", '{"name": "Ada"}'))

    assert on(talk()) == [("return", "Hello, Ada!")]
    assert "Whom to greet" in pie("inferlet", "info", "hello").stdout
    assert pie("inferlet", "remove", "hello").returncode == 0
    time.sleep(1.1)  # a program that was looked up is cached for a second
    with pytest.raises(Refused, match="hello"):
        on(talk())
