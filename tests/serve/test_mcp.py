"""MCP servers that run beside a client, relayed to inferlets of every language."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT, component, install_once
from raw_client import LIMIT_S, RawClient, Refused

sys.path.insert(0, str(ROOT / "client/python/src"))
sys.path.insert(0, str(ROOT / "scripts"))
from pie_client import McpError, PieClient

import build_clients

LANGUAGES = ("rust", "python", "typescript", "cpp")
COMMAND = sys.executable
SERVER = [str(ROOT / "tests/serve/mcp_server.py")]


async def installed(server, language: str = "rust", user: str = "ada") -> tuple[PieClient, str]:
    """A client, and the id of the program that asks servers."""
    client = PieClient(server.uri, username=user)
    await client.connect()
    name = "mcp-calls" if language == "rust" else f"mcp-calls-{language}"
    manifest = (ROOT / "tests/serve/mcp" / language / "Pie.toml").read_text()
    if not await client.check_program(f"{name}@0.1.0"):
        await client.install_program(component(f"serve-mcp-{language}"), manifest)
    return client, f"{name}@0.1.0"


async def ask(client: PieClient, program: str, *calls: list[str]) -> list[str]:
    process = await client.launch_process(program, {"calls": list(calls)})
    return json.loads(await process.result())


def check_oven(answers: list[str]) -> list[str]:
    """Checks what the tests' MCP server answers to one request of each kind. Returns the rest."""
    tools, added, resources, read, prompts, prompt, *rest = answers
    assert {tool["name"] for tool in json.loads(tools)["tools"]} >= {"add", "wait"}
    assert json.loads(added)["content"][0]["text"] == "42"
    assert json.loads(resources)["resources"][0]["uri"] == "notes://today"
    assert json.loads(read)["contents"][0]["text"] == "Grüße aus dem Ofen"
    assert json.loads(prompts)["prompts"][0]["name"] == "review"
    assert "review bread" in json.loads(prompt)["messages"][0]["content"]["text"]
    return rest


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_request_in_every_language(server, on, language):
    async def talk():
        client, program = await installed(server, language)
        async with client:
            await client.register_mcp_server("oven", "stdio", COMMAND, SERVER)
            return await ask(
                client,
                program,
                ["servers"],
                ["tools", "oven"],
                ["call", "oven", "add", '{"a": 2, "b": 40}'],
                ["resources", "oven"],
                ["read", "oven", "notes://today"],
                ["prompts", "oven"],
                ["prompt", "oven", "review", '{"topic": "bread"}'],
                ["tools", "elsewhere"],
                ["call", "oven", "add", "not JSON"],
                ["call", "oven", "add", '{"a": 2}'],
            )

    names, *answers = on(talk())
    assert names == "oven"
    errors = check_oven(answers)
    assert "no server is named 'elsewhere'; known: oven" in errors[0]
    assert "JSON object" in errors[1]
    assert json.loads(errors[2])["isError"]  # the protocol reports a tool's own errors so


def test_a_client_sees_only_its_own_servers(server, on):
    async def talk():
        first, program = await installed(server)
        other, _ = await installed(server)
        async with first, other:
            await first.register_mcp_server("mine", "stdio", COMMAND, SERVER)
            return await ask(first, program, ["servers"]), await ask(
                other, program, ["servers"], ["tools", "mine"]
            )

    mine, others = on(talk())
    assert mine == ["mine"]
    assert others[0] == "" and "has registered none" in others[1]


def test_a_server_that_dies_is_started_again(server, on):
    async def talk():
        client, program = await installed(server)
        async with client:
            await client.register_mcp_server("oven", "stdio", COMMAND, SERVER)
            return await ask(
                client,
                program,
                ["call", "oven", "die", "{}"],
                ["call", "oven", "add", '{"a": 1, "b": 1}'],
            )

    died, added = on(talk())
    assert "is not running: it has ended" in died
    assert json.loads(added)["content"][0]["text"] == "2"


def test_a_long_answer_is_refused(server, on):
    async def talk():
        client, program = await installed(server)
        async with client:
            await client.register_mcp_server("oven", "stdio", COMMAND, SERVER)
            call = ["call", "oven", "repeat", '{"text": "x", "times": 4500000}']
            return await ask(client, program, call)

    (answer,) = on(talk())
    assert answer.startswith("error:") and "MiB" in answer


def test_a_client_that_leaves_ends_its_requests(server, on):
    async def talk():
        client, program = await installed(server)
        await client.register_mcp_server("oven", "stdio", COMMAND, SERVER)
        call = ["call", "oven", "wait", '{"seconds": 30}']
        process = await client.launch_process(program, {"calls": [call]})
        await asyncio.sleep(1)
        await client._disconnect()
        again, _ = await installed(server)
        async with again:
            later = await again.attach_process(process.process_id)
            answer = json.loads(await later.result())
        await client.close()
        return answer

    (answer,) = on(talk())
    assert "has disconnected" in answer


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_server_that_does_not_start(server, on):
    async def talk():
        client, _ = await installed(server)
        async with client:
            with pytest.raises(McpError, match="cannot start the MCP server 'x'"):
                await client.register_mcp_server("x", "stdio", "/no/such/program")
            with pytest.raises(McpError, match="is not running"):
                await client.register_mcp_server("x", "stdio", "true")
            mute = ["-c", "read line; exec >&-; sleep 0.5"]  # it ends a moment after its output
            with pytest.raises(McpError, match="is not running"):
                await client.register_mcp_server("x", "stdio", "sh", mute)
            with pytest.raises(ValueError, match="stdio"):
                await client.register_mcp_server("x", "http", url="http://127.0.0.1")

    on(talk())
    gc.collect()  # nothing of the servers is left to a closed event loop


def test_the_frames_of_the_protocol(server, on):
    """The messages that published clients receive: the request's fields, and answers of every
    shape.
    """

    async def talk():
        client = await RawClient.connect(server.uri)
        async with client:
            name = "mcp-calls"
            manifest = (ROOT / "tests/serve/mcp/rust/Pie.toml").read_text()
            await install_once(client, "serve-mcp-rust", manifest)
            requests: asyncio.Queue = asyncio.Queue()
            client.on_mcp_request = requests.put_nowait
            for bad in ("", "a\nb", "x" * 200):
                with pytest.raises(Refused, match="name of an MCP server"):
                    await client.ask("register_mcp_server", name=bad, transport="stdio")
            await client.ask(
                "register_mcp_server", name="raw", transport="stdio", command="true", args=[]
            )
            call = ["call", "raw", "add", '{"a":1}']
            process = await client.launch(
                f"{name}@0.1.0", json.dumps({"calls": [call, call, call, call]})
            )
            request = await requests.get()
            assert request.keys() == {
                "type",
                "corr_id",
                "process_id",
                "server_name",
                "method",
                "params",
            }
            assert request["process_id"] == process
            assert (request["server_name"], request["method"]) == ("raw", "tools/call")
            assert json.loads(request["params"]) == {"name": "add", "arguments": {"a": 1}}
            await client.send("mcp_response", corr_id=request["corr_id"] + 9, ok=True, result="{}")
            await client.send("mcp_response", corr_id=request["corr_id"], ok=True, result='{"x":1}')
            for ok, result in (
                (False, '{"code": -7, "message": "no", "data": {"why": 1}}'),
                (False, "plain text"),
                (True, "not JSON"),
            ):
                request = await requests.get()
                await client.send("mcp_response", corr_id=request["corr_id"], ok=ok, result=result)
            events = await client.until_end(process)
            return json.loads(events[-1][1])

    answers = on(talk())
    assert answers[0] == '{"x":1}'
    assert answers[1] == 'error: no (code -7): {"why":1}'
    assert "plain text" in answers[2]
    assert "not JSON" in answers[3]


NODE = """
import { PieClient, McpError } from '%s';
const [uri, command, server] = process.argv.slice(2);
const client = await PieClient.connect(uri, { username: 'ada' });
await client.registerMcpServer('oven', 'stdio', command, [server]);
const calls = [['call', 'oven', 'add', '{"a": 2, "b": 40}'], ['call', 'oven', 'die', '{}'],
               ['call', 'oven', 'add', '{"a": 1, "b": 1}']];
const running = await client.launchProcess('mcp-calls@0.1.0', { calls });
console.log(await running.result());
try {
  await client.registerMcpServer('x', 'stdio', '/no/such/program');
} catch (error) {
  console.log(error instanceof McpError, error.message);
}
await client.close();
"""


def test_the_javascript_client(server, on, tmp_path):
    async def install():
        client, _ = await installed(server)
        await client.close()

    on(install())
    script = tmp_path / "ask.mjs"
    script.write_text(NODE % (build_clients.javascript() / "dist/index.js"))
    done = subprocess.run(
        ["node", script, server.uri, COMMAND, *SERVER],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    answers, refused = done.stdout.splitlines()
    added, died, again = json.loads(answers)
    assert json.loads(added)["content"][0]["text"] == "42"
    assert "is not running: it has ended" in died
    assert json.loads(again)["content"][0]["text"] == "2"
    assert refused.startswith("true cannot start the MCP server 'x'")


def driver_of(client: str) -> str:
    """The conformance driver of a client."""
    if client == "rust":
        return os.environ.get("PIE_RUST_DRIVER") or str(build_clients.rust())
    return str(build_clients.cpp()) + client.removeprefix("cpp")


@pytest.mark.parametrize("client", ["rust", "cpp", "cpp-async"])
def test_the_clients_with_a_driver(server, on, tmp_path, client):
    async def install():
        installer, _ = await installed(server)
        await installer.close()

    on(install())
    calls = [["call", "oven", "add", '{"a": 2, "b": 40}'], ["call", "oven", "die", "{}"]]
    calls.append(["call", "oven", "add", '{"a": 1, "b": 1}'])
    calls.append(["call", "oven", "repeat", '{"text": "x", "times": 9000000}'])
    calls.append(["read", "oven", "notes://today"])
    driver = subprocess.Popen(
        [driver_of(client), tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def do(op: str, **fields: object) -> dict:
        driver.stdin.write(json.dumps({"id": 1, "op": op, **fields}) + "\n")
        driver.stdin.flush()
        line = driver.stdout.readline()
        assert line, f"the driver ended at the step {op}"
        return json.loads(line)

    def refused(command: str) -> str:
        answer = do("register_mcp", client="c", name="x", command=command, args=[])
        return answer["error"]["message"]

    uri, limit = server.uri, LIMIT_S
    assert "error" not in do("connect", client="c", uri=uri, username="ada", timeout=limit)
    offer = {"client": "c", "name": "oven", "command": COMMAND, "args": SERVER}
    assert "error" not in do("register_mcp", **offer)
    # A second server of the same name takes the place of the first.
    assert "error" not in do("register_mcp", **offer)
    assert "error" not in do("reconnect", client="c")
    do("launch", client="c", program="mcp-calls@0.1.0", input={"calls": calls}, process="p")
    added, died, again, long, read = json.loads(do("result", process="p")["ok"])
    assert json.loads(added)["content"][0]["text"] == "42"
    assert "is not running: it has ended" in died
    assert json.loads(again)["content"][0]["text"] == "2"
    assert "a line of more than 8 MiB" in long
    assert json.loads(read)["contents"][0]["text"] == "Grüße aus dem Ofen"
    assert "cannot start the MCP server 'x'" in refused("/no/such/program")
    assert "is not running: it has ended" in refused("true")
    do("close", client="c")
    driver.stdin.close()
    assert driver.wait(LIMIT_S) == 0
