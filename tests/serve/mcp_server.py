"""A server of the official `mcp` package, for the tests of MCP.

mcp_server.py                over stdio
mcp_server.py --http PORT    over streamable HTTP, at http://127.0.0.1:PORT/mcp
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import anyio
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


@server.tool()
def grow() -> str:
    """Adds a tool to the list."""
    number = len([name for name in globals() if name.startswith("grown")])
    globals()[f"grown{number}"] = lambda: "more"
    server.add_tool(globals()[f"grown{number}"], name=f"grown{number}", description="More.")
    return f"grown{number}"


@server.tool()
def environment(name: str) -> str:
    """Tells a variable of the server's environment."""
    return os.environ.get(name, "")


@server.tool()
async def log_waits(path: str, seconds: float) -> str:
    """Answers late, and writes into a file whether it was cancelled."""
    try:
        await anyio.sleep(seconds)
    except BaseException:
        Path(path).write_text("cancelled")
        raise
    Path(path).write_text("waited")
    return "waited"


@server.resource("notes://today")
def today() -> str:
    return "Grüße aus dem Ofen"


@server.prompt()
def review(topic: str) -> str:
    return f"Please review {topic}."


if __name__ == "__main__":
    if "--http" in sys.argv:
        port = int(sys.argv[sys.argv.index("--http") + 1])
        server.run("streamable-http", host="127.0.0.1", port=port)
    print("a server may print other lines", flush=True)
    if "--mute" in sys.argv:
        sys.stdin.read()
    server.run("stdio")
