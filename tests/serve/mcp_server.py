"""A server of the official `mcp` package, over stdio, for the tests of MCP."""

from __future__ import annotations

import os
import sys
import time

from mcp.server.mcpserver import MCPServer

server = MCPServer("tests")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def repeat(text: str, times: int) -> str:
    """Repeats a text."""
    return text * times


@server.tool()
def wait(seconds: float) -> str:
    """Answers late."""
    time.sleep(seconds)
    return "waited"


@server.tool()
def die() -> str:
    """Ends the server before it answers."""
    os._exit(3)


@server.resource("notes://today")
def today() -> str:
    return "Grüße aus dem Ofen"


@server.prompt()
def review(topic: str) -> str:
    return f"Please review {topic}."


if __name__ == "__main__":
    print("a server may print other lines", flush=True)
    if "--mute" in sys.argv:
        sys.stdin.read()
    server.run("stdio")
