"""MCP servers of the engine's configuration: `[mcp.<name>]`, by a command and by a URL."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import PIE, ROOT, Serving
from raw_client import LIMIT_S
from test_mcp import SERVER, ask, check_oven, installed

PAGES = str(ROOT / "tests/serve/mcp_pages_server.py")
HOSTILE = str(ROOT / "tests/serve/hostile_mcp_server.py")
EVERYTHING = [
    ["tools", "{}"],
    ["call", "{}", "add", '{"a": 2, "b": 40}'],
    ["resources", "{}"],
    ["read", "{}", "notes://today"],
    ["prompts", "{}"],
    ["prompt", "{}", "review", '{"topic": "bread"}'],
    ["call", "{}", "add", "[1]"],
    ["call", "{}", "add", '{"a": 2}'],
    ["call", "{}", "nothing", "{}"],
]


def calls_to(server: str) -> list[list[str]]:
    return [
        [word if word != "{}" or i != 1 else server for i, word in enumerate(call)]
        for call in EVERYTHING
    ]


def entry(name: str, command: list[str], **more: object) -> str:
    lines = [f"[mcp.{name}]", f"command = {json.dumps(command[0])}"]
    lines += [f"args = {json.dumps(command[1:])}"]
    lines += [f"{key} = {value}" for key, value in more.items()]
    return "\n".join(lines) + "\n"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class HttpServer:
    """A server of the `mcp` package over streamable HTTP, which can be started again."""

    def __init__(self) -> None:
        self.port = free_port()
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *SERVER, "--http", str(self.port)], stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError("the MCP server did not start")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)


@pytest.fixture(scope="module")
def web():
    serving = HttpServer()
    yield serving
    serving.stop()


@pytest.fixture(scope="module")
def server(start, web) -> Serving:
    python = sys.executable
    hostile = [
        entry(how, [python, HOSTILE, how], timeout_secs=60)
        for how in ("garbage", "deep", "flood", "line", "loud", "shape")
    ]
    config = "".join(
        [
            entry("oven", [python, *SERVER], env='{ BAKER = "ada" }'),
            entry("hers", [python, *SERVER], users='["eve"]'),
            entry("missing", ["/no/such/program"]),
            entry("ends", ["true"]),
            entry("pages", [python, PAGES]),
            entry("mute", [python, HOSTILE, "mute"], timeout_secs=1),
            entry("sleepy", [python, HOSTILE, "sleepy"], timeout_secs=1),
            *hostile,
            f'[mcp.web]\nurl = "http://127.0.0.1:{web.port}/mcp"\nheaders = {{ x-key = "1" }}\n',
            f'[mcp.nowhere]\nurl = "http://127.0.0.1:{free_port()}/mcp"\ntimeout_secs = 5\n',
            f'[mcp.wrong]\nurl = "http://127.0.0.1:{web.port}/other"\n',
        ]
    )
    return start(config=config)


def talk(server, on, *calls: list[str], user: str = "ada") -> list[str]:
    async def run():
        client, program = await installed(server, user=user)
        async with client:
            return await ask(client, program, *calls)

    return on(run())


@pytest.mark.parametrize("name", ["oven", "web"])
def test_every_request(server, on, name):
    answers = talk(server, on, *calls_to(name))
    errors = check_oven(answers)
    assert "the arguments" in errors[0]
    assert "isError" in errors[1]
    assert "nothing" in errors[2]


def test_users_see_their_own_servers(server, on):
    (ada,) = talk(server, on, ["servers"])
    (eve,) = talk(server, on, ["servers"], user="eve")
    assert "hers" not in ada.split() and "oven" in ada.split()
    assert "hers" in eve.split()
    (refused,) = talk(server, on, ["tools", "hers"])
    assert "no server is named 'hers'" in refused
    (answered,) = talk(server, on, ["tools", "hers"], user="eve")
    assert "tools" in answered


def test_a_server_of_the_client_comes_first(server, on):
    async def run():
        client, program = await installed(server)
        async with client:
            await client.register_mcp_server("oven", "stdio", sys.executable, SERVER)
            call = ["call", "oven", "environment", '{"name": "BAKER"}']
            return await ask(client, program, ["servers"], call)

    names, baker = on(run())
    assert names.split().count("oven") == 1
    assert json.loads(baker)["content"][0]["text"] == ""  # the engine's own has the variable
    (baker,) = talk(server, on, ["call", "oven", "environment", '{"name": "BAKER"}'])
    assert json.loads(baker)["content"][0]["text"] == "ada"


def test_a_server_that_dies_is_started_again(server, on):
    add = ["call", "oven", "add", '{"a": 1, "b": 1}']
    died, added = talk(server, on, ["call", "oven", "die", "{}"], add)
    assert "is not running: it has ended" in died
    assert json.loads(added)["content"][0]["text"] == "2"


def test_a_list_of_tools_that_changes(server, on):
    before, grown, after = talk(
        server, on, ["tools", "oven"], ["call", "oven", "grow", "{}"], ["tools", "oven"]
    )
    new = json.loads(grown)["content"][0]["text"]
    names = [{tool["name"] for tool in json.loads(text)["tools"]} for text in (before, after)]
    assert names[1] - names[0] == {new}


@pytest.mark.parametrize("whose", ["engine", "client"])
def test_lists_of_several_pages(server, on, whose):
    async def run():
        client, program = await installed(server)
        async with client:
            if whose == "client":
                await client.register_mcp_server("pages", "stdio", sys.executable, [PAGES])
            calls = [[what, "pages"] for what in ("tools", "resources", "prompts")]
            return [json.loads(answer) for answer in await ask(client, program, *calls)]

    tools, resources, prompts = on(run())
    assert [tool["name"] for tool in tools["tools"]] == [f"tool{i}" for i in range(7)]
    assert "nextCursor" not in tools
    # A list without an end: the guest sees that it goes on.
    assert len(resources["resources"]) == 64 and resources["nextCursor"] == "64"
    assert prompts["prompts"] == [] and "nextCursor" not in prompts


def test_servers_that_do_not_answer(server, on):
    calls = [["tools", name] for name in ("missing", "ends", "mute", "sleepy", "nowhere", "wrong")]
    missing, ends, mute, sleepy, nowhere, wrong = talk(server, on, *calls)
    assert "cannot start the MCP server 'missing'" in missing
    assert "is not running: it has ended" in ends
    assert "did not answer within 1 s" in mute
    assert "did not answer within 1 s" in sleepy
    assert "cannot be reached" in nowhere
    assert "answered with the status 404" in wrong


def test_hostile_servers(server, on):
    calls = [["tools", name] for name in ("garbage", "deep", "flood", "line", "loud", "shape")]
    garbage, deep, flood, line, loud, shape = talk(server, on, *calls)
    assert json.loads(garbage) == {"tools": []}
    assert deep.startswith("error:")
    assert "without an answer" in flood
    assert "a line of more than 8 MiB" in line
    assert json.loads(loud) == {"tools": []}
    assert "not one of JSON-RPC" in shape
    assert (server.home / "server.log").stat().st_size < 8 << 20
    (still,) = talk(server, on, ["call", "oven", "add", '{"a": 1, "b": 2}'])
    assert json.loads(still)["content"][0]["text"] == "3"


@pytest.mark.parametrize("name", ["oven", "web"])
def test_long_answers_and_deep_arguments_are_refused(server, on, name):
    long, deep, after = talk(
        server,
        on,
        ["call", name, "repeat", '{"text": "x", "times": 4500000}'],
        ["call", name, "add", '{"a": ' + "[" * 200_000 + "]" * 200_000 + "}"],
        ["call", name, "add", '{"a": 1, "b": 2}'],
    )
    assert "MiB" in long
    assert "nested deeper" in deep
    assert json.loads(after)["content"][0]["text"] == "3"


@pytest.mark.parametrize("name", ["oven", "web"])
def test_a_process_that_ends_cancels_its_request(server, on, tmp_path, name):
    path = tmp_path / "waits"

    async def run():
        client, program = await installed(server)
        async with client:
            arguments = json.dumps({"path": str(path), "seconds": 60})
            call = ["call", name, "log_waits", arguments]
            process = await client.launch_process(program, {"calls": [call]})
            await asyncio.sleep(2)
            await process.terminate()
            for _ in range(200):
                if path.exists():
                    return path.read_text()
                await asyncio.sleep(0.1)
            return "nothing"

    assert on(run()) == "cancelled"


def test_a_url_whose_server_was_restarted(server, on, web):
    add = ["call", "web", "add", '{"a": 1, "b": 1}']
    assert "2" in talk(server, on, add)[0]
    web.stop()
    assert "cannot be reached" in talk(server, on, add)[0]
    web.start()  # it has forgotten the session
    assert "2" in talk(server, on, add)[0]


def test_the_servers_end_with_the_engine(start, on, tmp_path):
    alone = start(config=entry("oven", [sys.executable, *SERVER]))
    (pid,) = talk(alone, on, ["call", "oven", "environment", '{"name": "PATH"}'])
    assert "content" in pid
    found = subprocess.run(
        ["ps", "--ppid", str(alone.process.pid), "-o", "pid="], capture_output=True, text=True
    )
    (child,) = found.stdout.split()
    alone.stop()
    assert not Path(f"/proc/{child}").exists()


def test_pie_run(tmp_path):
    (tmp_path / "config.toml").write_text(entry("oven", [sys.executable, *SERVER]))
    command = [PIE, "run", "--dummy", "--config", tmp_path / "config.toml"]
    command += ["--path", ROOT / "build/guests/serve-mcp-rust.wasm"]
    command += ["--manifest", ROOT / "tests/serve/mcp/rust/Pie.toml"]
    calls = [["call", "oven", "add", '{"a": 2, "b": 2}']]
    done = subprocess.run(
        [*command, "--input", json.dumps({"calls": calls})],
        env={**os.environ, "PIE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert '"text":"4"' in done.stdout.replace("\\", "").replace(" ", ""), done


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("[mcp]\noven = 5\n", "mcp.oven: write the server as a table"),
        ("[mcp.oven]\n", "set either command or url"),
        ('[mcp.oven]\ncommand = "x"\nurl = "http://x/"\n', "set either command or url"),
        ('[mcp.oven]\nurl = "ftp://x/"\n', "mcp.oven: the url 'ftp://x/' must look like"),
        ('[mcp.oven]\nurl = "http://x/"\nargs = ["a"]\n', "belong to a command"),
        ('[mcp.oven]\ncommand = "x"\nheaders = { a = "b" }\n', "belong to a url"),
        ('[mcp.oven]\ncommand = "x"\ntimeout_secs = 0\n', "'timeout_secs' must be"),
        ('[mcp."a b"]\ncommand = "x"\n', "the name must have"),
        ('[mcp.oven]\ncomand = "x"\n', "unknown key mcp.comand; did you mean mcp.command?"),
    ],
)
def test_configurations_that_are_refused(tmp_path, config, problem):
    (tmp_path / "config.toml").write_text(config)
    done = subprocess.run(
        [PIE, "serve", "--dummy", "--port", "0", "--config", tmp_path / "config.toml"],
        env={**os.environ, "PIE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode != 0 and problem in done.stderr
