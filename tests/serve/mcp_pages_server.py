"""A server of the official `mcp` package that sends its lists in pages, over stdio.

mcp_pages_server.py [TOOLS]
"""

from __future__ import annotations

import sys

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

TOOLS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
TOOLS_OF_A_PAGE = 3 if TOOLS < 100 else 100  # a client reads only a few pages


async def tools(_, params) -> types.ListToolsResult:
    start = int(params.cursor) if params and params.cursor else 0
    end = min(start + TOOLS_OF_A_PAGE, TOOLS)
    page = [
        types.Tool(name=f"tool{i}", description='"]},{', input_schema={"type": "object"})
        for i in range(start, end)
    ]
    return types.ListToolsResult(tools=page, next_cursor=str(end) if end < TOOLS else None)


async def resources(_, params) -> types.ListResourcesResult:
    """A list without an end."""
    number = int(params.cursor) if params and params.cursor else 0
    resource = types.Resource(name=f"note{number}", uri=f"notes://{number}")
    return types.ListResourcesResult(resources=[resource], next_cursor=str(number + 1))


async def prompts(_, params) -> types.ListPromptsResult:
    """Pages without items."""
    return types.ListPromptsResult(
        prompts=[], next_cursor=None if params and params.cursor else "é"
    )


async def main() -> None:
    server = Server(
        "pages", on_list_tools=tools, on_list_resources=resources, on_list_prompts=prompts
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
