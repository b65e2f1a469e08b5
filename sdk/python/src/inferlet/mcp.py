"""Model Context Protocol servers. Answers are the raw JSON of the protocol's results."""

from __future__ import annotations

from typing import Any

from wit_world.imports import client as wit

from . import _check
from .errors import PieError, ask


def available_servers() -> list[str]:
    """The names of the servers that this inferlet may connect to."""
    return wit.available_servers()


def connect(name: str) -> McpSession:
    """Opens a session with a server. An unknown name is an McpError."""
    return McpSession(ask(wit.connect, _check.text("name", name)))


class McpSession:
    """`args` is JSON text or a dict. Errors are `McpError`s with the server's code."""

    def __init__(self, raw: Any) -> None:
        self._handle = raw

    @property
    def _raw(self) -> Any:
        if self._handle is None:
            raise PieError("this MCP session is closed")
        return self._handle

    def list_tools(self) -> str:
        """The server's tools."""
        return ask(self._raw.list_tools)

    def call_tool(self, name: str, args: Any = None) -> str:
        """Calls a tool and returns its result."""
        return ask(self._raw.call_tool, _check.text("name", name), _json(args))

    def list_resources(self) -> str:
        """The server's resources."""
        return ask(self._raw.list_resources)

    def read_resource(self, uri: str) -> str:
        """The content of a resource."""
        return ask(self._raw.read_resource, _check.text("uri", uri))

    def list_prompts(self) -> str:
        """The server's prompts."""
        return ask(self._raw.list_prompts)

    def get_prompt(self, name: str, args: Any = None) -> str:
        """A prompt, filled in with `args`."""
        return ask(self._raw.get_prompt, _check.text("name", name), _json(args))

    def close(self) -> None:
        """Ends the session. A second call does nothing; any other call is a PieError from now
        on."""
        if self._handle is not None:
            raw, self._handle = self._handle, None
            raw.__exit__(None, None, None)

    def __enter__(self) -> McpSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _json(args: Any) -> str:
    return _check.json_text("args", {} if args is None else args)
