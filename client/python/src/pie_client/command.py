"""The command `pie-client`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import ssl
import sys
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from . import settings
from .arguments import to_input
from .client import PieClient
from .errors import PieError, ServerError
from .events import Event
from .process import Process

_INTERRUPTED = 130
_EXAMPLES = """examples:
  pie-client ping
  pie-client install app.wasm -m app/Pie.toml
  pie-client submit text-completion -- --prompt "Hello" --max-tokens 32
  pie-client submit -p app.wasm -m app/Pie.toml --input '{"prompt": "Hello"}'
  pie-client submit my-app --detach          # print the process's id and leave it running
  pie-client list
  pie-client attach 4f1d                     # the beginning of an id is enough
  pie-client abort 4f1d
  pie-client daemon my-app --port 9000       # an HTTP inferlet on a port of the server
  pie-client restart 4f1d-daemon-1           # the newest version of its program answers
  pie-client config set uri ws://gpu-box:8080
"""


def main(words: list[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    own, behind = _split(words)
    flags = _parser().parse_args(own)
    flags.arguments = behind
    try:
        if flags.command == "config":
            return config(flags)
        return asyncio.run(_connected(flags))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (PieError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    # The flags may stand before or after the command. SUPPRESS keeps an absent flag after the
    # command from overriding one before it.
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    for key, meaning in settings.KEYS.items():
        common.add_argument(f"--{key.replace('_', '-')}", help=meaning, metavar=key.upper())
    parser = argparse.ArgumentParser(
        prog="pie-client",
        parents=[common],
        description="Talks to a Pie server.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, meaning: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=meaning, description=meaning, parents=[common])

    submit = add("submit", "launch an inferlet and show its output; Ctrl-C cancels it")
    submit.add_argument("inferlet", nargs="?", help="name or name@version of an installed inferlet")
    submit.add_argument("-p", "--path", help="component to install first")
    submit.add_argument("-m", "--manifest", help="the component's Pie.toml")
    submit.add_argument("--input", help="input as JSON; or give arguments after --")
    submit.add_argument("--token-budget", type=int, help="maximum number of tokens to compute")
    submit.add_argument(
        "--detach", action="store_true", help="print the process's id and leave it running"
    )
    install = add("install", "install a component")
    install.add_argument("path", help="component file")
    install.add_argument("-m", "--manifest", required=True, help="the component's Pie.toml")
    install.add_argument("--force", action="store_true", help="replace an installed version")
    for one in (
        submit,
        attach := add("attach", "show the output of a process; Ctrl-C leaves it running"),
    ):
        one.add_argument("--files", type=Path, help="folder for the files that the process sends")
        one.add_argument(
            "-i", "--interactive", action="store_true", help="send the lines of stdin as messages"
        )
    daemon = add("daemon", "let an HTTP inferlet answer on a port of the server's machine")
    daemon.add_argument("inferlet", help="name or name@version of an installed HTTP inferlet")
    daemon.add_argument(
        "--port", type=int, default=0, help="the port; 0, the default, is a free one"
    )
    daemon.add_argument("--input", help="input as JSON; or give arguments after --")
    abort = add("abort", "cancel a process, or close the port of a daemon")
    restart = add(
        "restart", "end a daemon's requests and let the newest version of its program answer"
    )
    for one in (attach, abort, restart):
        one.add_argument("process", help="the process's id, or the beginning of it")
    add("list", "list your running processes").add_argument(
        "--json", action="store_true", help="print JSON"
    )
    add("ping", "measure the round trip to the server")
    change = add("config", "show or change the settings").add_subparsers(
        dest="what", required=True, metavar="show|set|unset|path"
    )
    change.add_parser("show", help="show the effective settings", parents=[common])
    change.add_parser("path", help="print the path of the settings file")
    one = change.add_parser("set", help="set a value")
    one.add_argument("key", choices=settings.KEYS)
    one.add_argument("value")
    change.add_parser("unset", help="remove a value").add_argument("key", choices=settings.KEYS)
    return parser


async def _connected(flags: argparse.Namespace) -> int:
    values = settings.effective(flags)
    options: dict[str, Any] = {}
    if "token_file" in values:
        options["token"] = Path(values["token_file"]).expanduser().read_text().strip()
    else:
        options.update(username=values["username"], key=values.get("key"))
    if "ca" in values:
        options["ssl"] = ssl.create_default_context(cafile=Path(values["ca"]).expanduser())
    async with PieClient(values["uri"], **options) as client:
        return await COMMANDS[flags.command](client, flags)


# --- commands ------------------------------------------------------------------------------------


async def submit(client: PieClient, flags: argparse.Namespace) -> int:
    inferlet = flags.inferlet
    if flags.path:
        if not flags.manifest:
            raise ValueError("--path needs the component's Pie.toml: add --manifest FILE")
        inferlet = await _install(client, flags.path, flags.manifest, force=True)
    elif not inferlet:
        raise ValueError("no inferlet given: name one, or use --path and --manifest")
    process = await client.launch_process(inferlet, _input(flags), token_budget=flags.token_budget)
    if flags.detach:
        print(process.process_id)
        return 0
    try:
        return await _show(process, flags)
    except asyncio.CancelledError:
        with contextlib.suppress(PieError):
            await asyncio.shield(process.terminate())
        return _INTERRUPTED


async def attach(client: PieClient, flags: argparse.Namespace) -> int:
    process = await client.attach_process(await _full_id(client, flags.process))
    try:
        return await _show(process, flags)
    except asyncio.CancelledError:
        print(f"process {process.process_id} is still running", file=sys.stderr)
        return _INTERRUPTED


async def abort(client: PieClient, flags: argparse.Namespace) -> int:
    await client.terminate_process(await _full_id(client, flags.process))
    return 0


async def daemon(client: PieClient, flags: argparse.Namespace) -> int:
    id = await client.launch_daemon(flags.inferlet, flags.port, _input(flags))
    (port,) = [one.get("port") for one in await client.list_processes() if one["process_id"] == id]
    print(f"{id}  port {port}")
    return 0


async def restart(client: PieClient, flags: argparse.Namespace) -> int:
    print(await client.restart_daemon(await _full_id(client, flags.process)))
    return 0


async def install(client: PieClient, flags: argparse.Namespace) -> int:
    print(await _install(client, flags.path, flags.manifest, flags.force))
    return 0


async def list_processes(client: PieClient, flags: argparse.Namespace) -> int:
    found = await client.list_processes()
    if flags.json:
        print(json.dumps(found, indent=2))
        return 0
    for entry in found:
        place = f"  port {entry['port']}" if "port" in entry else "  attached" * entry["attached"]
        print(f"{entry['process_id']}  {entry['inferlet']}{place}")
    return 0


async def ping(client: PieClient, flags: argparse.Namespace) -> int:
    print(f"{client.uri} answered in {await client.ping() * 1000:.2f} ms")
    return 0


def config(flags: argparse.Namespace) -> int:
    kept = settings.from_file()
    if flags.what == "path":
        print(settings.path())
    elif flags.what == "show":
        for key, value in settings.effective(flags).items():
            print(f"{key} = {value}")
    elif flags.what == "set":
        settings.write({**kept, flags.key: flags.value})
    else:
        kept.pop(flags.key, None)
        settings.write(kept)
    return 0


COMMANDS: dict[str, Callable[[PieClient, argparse.Namespace], Awaitable[int]]] = {
    "submit": submit,
    "attach": attach,
    "abort": abort,
    "daemon": daemon,
    "restart": restart,
    "install": install,
    "list": list_processes,
    "ping": ping,
}

# --- parts of them -------------------------------------------------------------------------------


def _input(flags: argparse.Namespace) -> Any:
    """The input that --input or the words after -- give."""
    if flags.input is not None and flags.arguments:
        raise ValueError("use either --input or arguments after --, not both")
    return flags.input if flags.input is not None else to_input(flags.arguments)


async def _install(client: PieClient, path: str, manifest: str, force: bool) -> str:
    """Installs the component unless it is installed. Returns its name and version."""
    package = tomllib.loads(Path(manifest).read_text()).get("package", {})
    inferlet = f"{package.get('name')}@{package.get('version')}"
    if not await client.check_program(inferlet, path, Path(manifest)):
        await client.install_program(path, Path(manifest), force)
    return inferlet


async def _full_id(client: PieClient, beginning: str) -> str:
    found = [entry["process_id"] for entry in await client.list_processes()]
    matching = [process for process in found if process.startswith(beginning)]
    if len(matching) > 1:
        raise ServerError(
            f"the ids of {len(matching)} processes begin with '{beginning}': give more of the id"
        )
    return matching[0] if matching else beginning  # a process that has ended is not listed


async def _show(process: Process, flags: argparse.Namespace) -> int:
    """Prints the events of a process and returns the exit code."""
    task = asyncio.current_task()
    assert task
    with contextlib.suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
    speaking = asyncio.create_task(_send_lines(process)) if flags.interactive else None
    received = 0
    try:
        async for event, value in process:
            if event is Event.File:
                received += 1
                _keep(flags.files, received, bytes(value))  # type: ignore[arg-type]
            elif event in (Event.Stdout, Event.Message):
                print(value, end="", flush=True)
            elif event is Event.Stderr:
                print(value, end="", file=sys.stderr, flush=True)
            elif event is Event.Return:
                print(f"\n{value}" if value else "")
            else:
                print(f"error: {value}", file=sys.stderr)
                return 1
    finally:
        if speaking:
            speaking.cancel()
    return 0


async def _send_lines(process: Process) -> None:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    with contextlib.suppress(PieError):
        while line := await reader.readline():
            await process.signal(line.decode(errors="replace").rstrip("\n"))


def _keep(folder: Path | None, number: int, data: bytes) -> None:
    if folder is None:
        text = (
            f"[pie-client] received a file of {len(data)} bytes; use --files FOLDER to keep files"
        )
        print(text, file=sys.stderr)
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"file-{number}").write_bytes(data)
    print(f"[pie-client] {folder / f'file-{number}'}: {len(data)} bytes", file=sys.stderr)
