"""The conformance driver of the Python client. See README.md."""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
import sys
from pathlib import Path
from typing import Any

import pie_client
from pie_client import Event, PieClient, Process

KINDS = {
    pie_client.AuthError: "auth",
    pie_client.ServerError: "refused",
    pie_client.ConnectionLost: "connection",
    pie_client.RequestTimeout: "timeout",
    pie_client.ProcessError: "process",
    pie_client.ProcessEnded: "ended",
    pie_client.IntegrityError: "integrity",
    pie_client.TooLarge: "too_large",
    ValueError: "key",
}
FOLDER = Path(sys.argv[1])
clients: dict[str, PieClient] = {}
processes: dict[str, Process] = {}
numbers = itertools.count(1)


def shown(event: Event, value: str | bytes) -> list[str]:
    if isinstance(value, bytes):
        path = FOLDER / f"received-{next(numbers)}"
        path.write_bytes(value)
        return ["file", str(path)]
    return [event.value, value]


async def connect(do: dict[str, Any]) -> None:
    options: dict[str, Any] = {k: do[k] for k in ("username", "key", "token", "timeout") if k in do}
    if "ca" in do:
        options["ssl"] = ssl.create_default_context(cafile=do["ca"])
    client = PieClient(do["uri"], **options)
    await client.connect()
    clients[do["client"]] = client


async def of_client(op: str, client: PieClient, do: dict[str, Any]) -> Any:
    match op:
        case "authenticate":
            return await client.authenticate(do["username"], do.get("key"))
        case "auth_by_token":
            return await client.auth_by_token(do["token"])
        case "reconnect":
            return await client.reconnect()
        case "close":
            return await client.close()
        case "ping":
            assert await client.ping() >= 0
            return None
        case "query":
            return await client.query(do["subject"], do["record"])
        case "resolve_version":
            return await client.resolve_version(do["name"])
        case "check":
            return await client.check_program(do["program"], do.get("wasm"), do.get("manifest"))
        case "install":
            return await client.install_program(do["wasm"], do["manifest"], do.get("force", False))
        case "launch":
            process = await client.launch_process(
                do["program"], do["input"], do.get("capture", True), do.get("budget")
            )
            processes[do["process"]] = process
            return process.process_id
        case "attach":
            processes[do["process"]] = await client.attach_process(do["pid"], do.get("seen"))
            return None
        case "list":
            return await client.list_processes()
        case "signal_pid":
            return await client.signal_process(do["pid"], do["message"])
        case "terminate_pid":
            return await client.terminate_process(do["pid"])
        case "launch_daemon":
            return await client.launch_daemon(do["program"], do["port"])
        case "restart_daemon":
            return await client.restart_daemon(do["pid"])
        case "register_mcp":
            return await client.register_mcp_server(
                do["name"], command=do["command"], args=do["args"]
            )
    raise AssertionError(op)


async def of_process(op: str, process: Process, do: dict[str, Any]) -> Any:
    match op:
        case "signal":
            return await process.signal(do["message"])
        case "transfer":
            return await process.transfer_file(Path(do["path"]).read_bytes())
        case "terminate":
            return await process.terminate()
        case "discard":
            return process.discard()
        case "seen":
            return process.seen
        case "recv":
            return shown(*await process.recv(do.get("timeout")))
        case "drain":
            events = do["events"] = []
            async for event, value in process:
                events.append(shown(event, value))
            return events
        case "text":
            return await process.text()
        case "result":
            return await process.result()
    raise AssertionError(op)


async def handle(do: dict[str, Any]) -> None:
    answer: dict[str, Any] = {"id": do["id"]}
    try:
        if do["op"] == "connect":
            answer["ok"] = await connect(do)
        elif "client" in do:
            answer["ok"] = await of_client(do["op"], clients[do["client"]], do)
        else:
            answer["ok"] = await of_process(do["op"], processes[do["process"]], do)
    except tuple(KINDS) as error:
        kind = next(name for of, name in KINDS.items() if isinstance(error, of))
        answer["error"] = {"kind": kind, "message": str(error)}
        if "events" in do:
            answer["error"]["events"] = do["events"]
    except Exception as error:
        answer["error"] = {"kind": "bug", "message": repr(error)}
    print(json.dumps(answer), flush=True)


async def main() -> None:
    lines = asyncio.StreamReader(limit=64 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    tasks = set()
    while line := await lines.readline():
        task = asyncio.create_task(handle(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*(client.close() for client in clients.values()))


asyncio.run(main())
