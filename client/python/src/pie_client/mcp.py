"""MCP servers that run beside this client. The engine's requests are relayed to them.

A server is a program that speaks the Model Context Protocol over its stdin and stdout, one JSON
message a line. A server that dies is started again by the next request, after a pause that grows.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from typing import Any, cast

from .errors import PieError

MAX_LINE_BYTES = 8 << 20
"""The longest message of a server."""

START_S = 30.0
REQUEST_S = 60.0
_STOP_S = 2.0
_MAX_PAUSE_S = 10.0
_STABLE_S = 60.0  # a server that ran for this long is restarted without a pause
_PROTOCOL = "2025-06-18"
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
_UNREACHABLE = -32000
_TIMEOUT = -32003


class McpError(PieError):
    """A JSON-RPC error: `code`, the text, and `data` if the server sent any."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def to_json(self) -> str:
        """The error as the JSON that goes to the server."""
        error = {"code": self.code, "message": str(self)}
        if self.data is not None:
            error["data"] = self.data
        return json.dumps(error)


class StdioServer:
    """One server. `start` runs it; `request` asks it, and starts it again if it has died."""

    def __init__(self, name: str, command: str, args: list[str]) -> None:
        self.name = name
        self._command = [command, *args]
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._starting = asyncio.Lock()
        self._failures = 0
        self._started_at = 0.0
        self._why = "it was not started"

    async def start(self) -> None:
        async with self._starting:
            if self._process is not None:
                return
            if self._failures and time.monotonic() - self._started_at > _STABLE_S:
                self._failures = 0
            if self._failures:
                await asyncio.sleep(min(0.1 * 2**self._failures, _MAX_PAUSE_S))
            self._failures += 1
            self._started_at = time.monotonic()
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=MAX_LINE_BYTES,
                )
            except OSError as error:
                raise McpError(
                    _UNREACHABLE, f"cannot start the MCP server '{self.name}': {error}"
                ) from error
            self._reader = asyncio.create_task(self._read(self._process))
            hello = {
                "protocolVersion": _PROTOCOL,
                "capabilities": {},
                "clientInfo": {"name": "pie-client", "version": "0.1.0"},
            }
            try:
                await self._ask("initialize", hello, START_S)
                await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            except McpError:
                await self.stop()
                raise

    async def request(self, method: str, params: Any, timeout: float = REQUEST_S) -> Any:
        """Returns the result. Raises McpError."""
        if self._process is None:
            await self.start()
        return await self._ask(method, params, timeout)

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await _end(process)
        # If the server has ended by itself, the reader may still be waiting for its exit.
        if self._reader and self._reader is not asyncio.current_task():
            await asyncio.gather(self._reader, return_exceptions=True)

    async def _ask(self, method: str, params: Any, timeout: float) -> Any:
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return await asyncio.wait_for(answer, timeout)
        except TimeoutError:
            with contextlib.suppress(McpError):
                cancelled = {"requestId": number, "reason": "timed out"}
                await self._send(
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}
                )
            raise McpError(
                _TIMEOUT, f"the MCP server '{self.name}' did not answer within {timeout:g} s"
            ) from None
        finally:
            self._waiting.pop(number, None)

    async def _send(self, message: dict[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None:
            raise self._gone()
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            await process.stdin.drain()
        except (OSError, RuntimeError) as error:
            raise self._gone() from error

    def _gone(self) -> McpError:
        return McpError(_UNREACHABLE, f"the MCP server '{self.name}' is not running: {self._why}")

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout
        self._why = "it has ended"
        try:
            while line := await process.stdout.readline():
                await self._take(line)
        except ValueError:
            self._why = f"it sent a line of more than {MAX_LINE_BYTES >> 20} MiB"
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        except McpError:
            pass  # it has ended; the answer to one of its requests could not be sent
        if self._process is process:
            self._process = None
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._gone())
        await _end(process)

    async def _take(self, line: bytes) -> None:
        try:
            parsed: Any = json.loads(line)
        except (ValueError, RecursionError):
            return  # some servers print other text too
        if not isinstance(parsed, dict):
            return
        message = cast("dict[str, Any]", parsed)
        number = message.get("id")
        if "method" in message:
            if number is not None:
                await self._send({"jsonrpc": "2.0", "id": number, **_answer(message["method"])})
            return
        answer = self._waiting.get(number) if isinstance(number, int) else None
        if answer is None or answer.done():
            return
        error = message.get("error")
        if isinstance(error, dict):
            error = cast("dict[str, Any]", error)
            code, text = error.get("code"), error.get("message")
            code = code if isinstance(code, int) else _UNREACHABLE
            answer.set_exception(McpError(code, str(text), error.get("data")))
        else:
            answer.set_result(message.get("result"))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Waits for a server's exit. One that does not end with its input is killed."""
    if process.stdin:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _STOP_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _answer(method: Any) -> dict[str, Any]:
    """Returns this client's answer to a request of a server. The client supports only ping."""
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": _METHOD_NOT_FOUND, "message": f"no method is named {method}"}}


async def relay(servers: dict[str, StdioServer], frame: dict[str, Any]) -> tuple[bool, str]:
    """Serves an `mcp_request`: whether it succeeded, and the JSON of its result or error."""
    try:
        server = servers.get(str(frame.get("server_name")))
        if server is None:
            raise McpError(_UNREACHABLE, f"this client runs no server '{frame['server_name']}'")
        try:
            params = json.loads(frame.get("params") or "{}")
        except ValueError:
            raise McpError(_INVALID_PARAMS, "the parameters are not JSON") from None
        return True, json.dumps(await server.request(str(frame["method"]), params))
    except McpError as error:
        return False, error.to_json()
