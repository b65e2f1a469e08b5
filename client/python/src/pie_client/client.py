"""PieClient: all requests to a server."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NotRequired, TypedDict

import blake3

from .connection import Connection, Frame
from .errors import AuthError, ConnectionLost, PieError, ServerError, TooLarge
from .keys import ParsedPrivateKey
from .limits import CHUNK_BYTES
from .mcp import StdioServer, relay
from .process import Process

Key = ParsedPrivateKey | str | os.PathLike[str]
"""A parsed key, the text of a key, or the path of a key file."""

_INSTALL_S = 600.0  # the server compiles the component before it answers


class ProcessInfo(TypedDict):
    """A running process."""

    process_id: str
    """The id that `attach_process` takes."""
    inferlet: str
    """The name and version of its program."""
    username: str
    """The user who launched it."""
    attached: bool
    """Whether a client is attached to it."""
    port: NotRequired[int]
    """The port on which a daemon answers; processes that are no daemons have none."""


class PieClient:
    """A connection to a server.

        async with PieClient("ws://127.0.0.1:8080", username="ada") as client:
            process = await client.launch_process("text-completion", {"prompt": "Hello"})
            async for text in process.stream(): print(text, end="")

    With `username` (and optionally `key`) or `token`, the client authenticates when it connects.
    Otherwise call `authenticate`. `timeout` applies to each request, in seconds; None waits for
    ever. Further options are passed to `websockets.connect`, for example `ssl` for a server with a
    private certificate.
    """

    def __init__(
        self,
        uri: str,
        *,
        username: str | None = None,
        key: Key | None = None,
        token: str | None = None,
        timeout: float | None = 60.0,
        **options: Any,
    ) -> None:
        self.uri = uri
        self.timeout = timeout
        self._options = options
        self._connection: Connection | None = None
        self._processes: dict[str, Process] = {}
        self._mcp_servers: dict[str, StdioServer] = {}
        self._mcp_tasks: set[asyncio.Task[None]] = set()
        self._uploading = asyncio.Lock()
        self._login: Callable[[], Awaitable[Any]] | None = None
        if token is not None:
            self._login = lambda: self.auth_by_token(token)
        elif username is not None:
            self._login = lambda: self.authenticate(username, key)

    # --- connecting ------------------------------------------------------------------------------

    async def __aenter__(self) -> PieClient:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Opens the connection. `async with` does the same."""
        if self._connection and not self._connection.broken:
            return
        self._connection = await Connection.open(
            self.uri, self._on_frame, self._on_lost, **self._options
        )
        if self._login:
            try:
                await self._login()
            except BaseException:
                await self._connection.close()
                raise

    async def close(self) -> None:
        """Closes the connection, and stops the MCP servers that this client runs. Processes keep
        running; pending calls raise ConnectionLost."""
        await self._disconnect()
        servers, self._mcp_servers = self._mcp_servers, {}
        await asyncio.gather(*(server.stop() for server in servers.values()))

    async def _disconnect(self) -> None:
        if self._connection:
            await self._connection.close()

    async def reconnect(self, attempts: int = 5) -> None:
        """Connects again, authenticates as before, offers its MCP servers again and attaches to
        every process that has not ended. Their events continue where they stopped; none is lost as
        long as the server buffers them. `recv` of a process that no longer exists raises
        ServerError."""
        await self._disconnect()
        for attempt in range(attempts):
            try:
                await self.connect()
                break
            except ConnectionLost:
                if attempt + 1 == attempts:
                    raise
                await asyncio.sleep(min(0.1 * 2**attempt, 5))
        for server in self._mcp_servers:
            await self._ask("register_mcp_server", name=server, transport="stdio")
        for process in list(self._processes.values()):
            try:
                await self._attach(process.process_id, process._seen, process)
            except ServerError as error:
                process._lost(error)
                self._processes.pop(process.process_id, None)

    async def authenticate(self, username: str, key: Key | None = None) -> None:
        """States the username, and proves it if the server requires a proof."""
        parsed = _parsed(key)
        try:
            answer = await self._ask("auth_identify", username=username)
            challenge = _challenge(answer)
            if challenge is not None:
                if parsed is None:
                    raise AuthError(
                        f"the server requires a proof: pass the private key of {username} as key"
                    )
                if challenge.startswith(_BINDS):
                    # Another server that passes the challenge on cannot use this proof.
                    challenge += self._live().certificate_hash()
                signature = base64.b64encode(parsed.sign(challenge)).decode()
                await self._ask("auth_prove", signature=signature)
        except AuthError:
            raise
        except ServerError as error:
            raise AuthError(str(error)) from None
        self._login = lambda: self.authenticate(username, parsed)

    async def auth_by_token(self, token: str) -> None:
        """Authenticates with the token in the server's file `server-<port>.token`."""
        try:
            await self._ask("auth_by_token", token=token)
        except ServerError as error:
            raise AuthError(str(error)) from None
        self._login = lambda: self.auth_by_token(token)

    # --- programs --------------------------------------------------------------------------------

    async def check_program(
        self,
        inferlet: str,
        wasm: bytes | str | os.PathLike[str] | None = None,
        manifest: str | os.PathLike[str] | None = None,
    ) -> bool:
        """Returns whether `name` or `name@version` is installed. With a component or a manifest,
        also checks that the installed one is equal."""
        name, _, version = inferlet.partition("@")
        answer = await self._ask(
            "check_program",
            name=name,
            version=version,
            wasm_hash=None if wasm is None else _hash(_bytes_of(wasm)),
            manifest_hash=None if manifest is None else _hash(_text_of(manifest).encode()),
        )
        return answer == "true"

    async def resolve_version(self, name: str) -> str:
        """Returns the latest installed version of a program, such as `1.2.3`."""
        found = json.loads(await self._ask("query", subject="program", record=name))
        return found["version"]

    async def install_program(
        self,
        wasm: bytes | str | os.PathLike[str],
        manifest: str | os.PathLike[str],
        force_overwrite: bool = False,
        *,
        timeout: float | None = _INSTALL_S,
    ) -> None:
        """Installs a component. `wasm` is its bytes or a path; `manifest` is a path or the text of
        a Pie.toml. An installed version is replaced only with `force_overwrite`."""
        component, text = _bytes_of(wasm), _text_of(manifest)
        fields = {
            "program_hash": _hash(component),
            "manifest": text,
            "force_overwrite": force_overwrite,
        }
        await self._upload("add_program", component, fields, timeout)

    # --- processes -------------------------------------------------------------------------------

    async def launch_process(
        self,
        inferlet: str,
        input: Any = None,
        capture_outputs: bool = True,
        token_budget: int | None = None,
    ) -> Process:
        """Launches `name` (the latest version) or `name@version`. A string input is sent unchanged,
        any other value as JSON. Without `capture_outputs`, the process's stdout and stderr are not
        sent; its messages still are."""
        process: list[Process] = []
        await self._ask(
            "launch_process",
            on_ok=lambda process_id: process.append(self._adopt(process_id, 0)),
            inferlet=inferlet,
            input=input if isinstance(input, str) else json.dumps({} if input is None else input),
            capture_outputs=capture_outputs,
            token_budget=token_budget,
            seen=0,
        )
        return process[0]

    async def attach_process(self, process_id: str, seen: int | None = None) -> Process:
        """Attaches to a process of this user. The buffered events come first. With `seen`, the
        number of events received before (`Process.seen`), exactly the later events come."""
        return await self._attach(process_id, seen, None)

    async def list_processes(self) -> list[ProcessInfo]:
        """Returns the user's running processes."""
        return json.loads(await self._ask("list_processes"))

    async def signal_process(self, process_id: str, message: str) -> None:
        """Sends a message to a process."""
        await self._ask("signal_process", process_id=process_id, message=message)

    async def transfer_file(self, process_id: str, data: bytes) -> None:
        """Sends a file to a process."""
        fields = {"process_id": process_id, "file_hash": _hash(data)}
        await self._upload("transfer_file", data, fields, self.timeout)

    async def terminate_process(self, process_id: str) -> None:
        """Cancels a process."""
        await self._ask("terminate_process", process_id=process_id)

    async def launch_daemon(self, inferlet: str, port: int, input: Any = None) -> str:
        """Lets an HTTP inferlet answer on a port of the server's machine; 0 chooses a free one.
        Returns the daemon's id, for `terminate_process` and `restart_daemon`; `list_processes`
        shows its port."""
        text = input if isinstance(input, str) else json.dumps({} if input is None else input)
        return await self._ask("launch_daemon", inferlet=inferlet, port=port, input=text)

    async def restart_daemon(self, process_id: str) -> str:
        """Ends the requests that a daemon is answering, and looks up its program again: a daemon
        that was launched without a version gets the newest one. Its id, port and input stay.
        Returns the program that answers now."""
        return await self._ask("restart_daemon", process_id=process_id)

    async def register_mcp_server(
        self,
        name: str,
        transport: str = "stdio",
        command: str | None = None,
        args: list[str] | None = None,
        url: str | None = None,
    ) -> None:
        """Starts an MCP server and offers it to the processes of this client: `command` with
        `args`, which speaks MCP over stdin and stdout. Raises McpError if it does not start."""
        if transport != "stdio" or command is None:
            raise ValueError(
                f"transport '{transport}': this client runs servers of the transport 'stdio', "
                "which need a command"
            )
        server = StdioServer(name, command, args or [])
        await server.start()
        if before := self._mcp_servers.pop(name, None):
            await before.stop()
        self._mcp_servers[name] = server
        await self._ask(
            "register_mcp_server",
            name=name,
            transport=transport,
            command=command,
            args=args,
            url=url,
        )

    # --- the rest --------------------------------------------------------------------------------

    async def ping(self) -> float:
        """Returns the round-trip time to the server, in seconds."""
        began = time.monotonic()
        await self._ask("ping")
        return time.monotonic() - began

    async def query(self, subject: str, record: str = "") -> str:
        """Returns JSON. `subject` is `model_status`, or `program` with its name in `record`."""
        return await self._ask("query", subject=subject, record=record)

    # --- inside ----------------------------------------------------------------------------------

    def _live(self) -> Connection:
        if self._connection is None:
            raise ConnectionLost("not connected: use `async with`, or await connect() first")
        return self._connection

    async def _ask(
        self, kind: str, on_ok: Callable[[str], Any] | None = None, **fields: Any
    ) -> str:
        return await self._live().request(kind, self.timeout, on_ok, **fields)

    def _adopt(self, process_id: str, seen: int | None) -> Process:
        if before := self._processes.get(process_id):
            before._lost(
                PieError(
                    f"this client attached to process {process_id} again; use the newer Process"
                )
            )
        process = self._processes[process_id] = Process(self, process_id, seen)
        return process

    async def _attach(self, process_id: str, seen: int | None, known: Process | None) -> Process:
        adopted = [known] if known else []

        def attached(_: str) -> None:
            if known:
                known._back()
            else:
                adopted.append(self._adopt(process_id, seen))

        fields = {} if seen is None else {"seen": seen}
        await self._ask("attach_process", attached, process_id=process_id, **fields)
        return adopted[0]

    async def _upload(
        self, kind: str, data: bytes, fields: dict[str, Any], timeout: float | None
    ) -> None:
        """Uploads in chunks, one upload at a time, because the server assembles one at a time."""
        total = max(1, -(-len(data) // CHUNK_BYTES))
        async with self._uploading:
            connection = self._live()
            number, pending = connection.begin()
            try:
                for index in range(total):
                    if pending.done.done():
                        break  # the server refused the upload and would ignore the rest
                    chunk = data[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES]
                    await connection.send(
                        kind,
                        corr_id=number,
                        chunk_index=index,
                        total_chunks=total,
                        chunk_data=chunk,
                        **fields,
                    )
            except BaseException:
                pending.done.cancel()
                raise
            await connection.finish(number, pending, timeout)

    async def _serve_mcp(self, frame: Frame) -> None:
        ok, result = await relay(self._mcp_servers, frame)
        with contextlib.suppress(PieError):
            try:
                await self._live().send(
                    "mcp_response", corr_id=frame["corr_id"], ok=ok, result=result
                )
            except TooLarge as error:
                await self._live().send(
                    "mcp_response", corr_id=frame["corr_id"], ok=False, result=str(error)
                )

    def _on_frame(self, frame: Frame) -> None:
        if frame["type"] == "mcp_request":
            task = asyncio.create_task(self._serve_mcp(frame))
            self._mcp_tasks.add(task)
            task.add_done_callback(self._mcp_tasks.discard)
            return
        process = self._processes.get(frame.get("process_id", ""))
        if process is None:
            return  # another process, or a kind of frame that this client does not know
        if frame["type"] in ("process_event", "file"):
            process._take(frame)
            if process.ended:
                del self._processes[process.process_id]

    def _on_lost(self, fault: PieError) -> None:
        for process in self._processes.values():
            process._lost(fault)

    def _waiting(self) -> contextlib.AbstractContextManager[None]:
        return self._connection.waiting() if self._connection else contextlib.nullcontext()

    def _got(self, value: str | bytes, process: Process) -> None:
        self._live().got(value, process)

    def _took(self, value: str | bytes) -> None:
        if self._connection:
            self._connection.took(value)


def _hash(data: bytes) -> str:
    return blake3.blake3(data).hexdigest()


def _bytes_of(wasm: bytes | str | os.PathLike[str]) -> bytes:
    return bytes(wasm) if isinstance(wasm, bytes | bytearray) else Path(wasm).read_bytes()


def _text_of(manifest: str | os.PathLike[str]) -> str:
    if isinstance(manifest, str) and "[" in manifest:
        return manifest  # the text itself: a manifest has a [package]
    return Path(manifest).read_text(encoding="utf-8")


def _parsed(key: Key | None) -> ParsedPrivateKey | None:
    if key is None or isinstance(key, ParsedPrivateKey):
        return key
    if isinstance(key, str) and "-----BEGIN" in key:
        return ParsedPrivateKey.parse(key)
    return ParsedPrivateKey.load(key)


# A challenge with this prefix may be signed together with the hash of the server's certificate.
_BINDS = b"PIE-BIND"


def _challenge(answer: str) -> bytes | None:
    """Returns the challenge to sign, or None if the server sent plain text and needs no proof."""
    try:
        return base64.b64decode(answer, validate=True)
    except binascii.Error:
        return None
