"""An MCP server of the official `mcp` package: the kitchen that the agent works with."""

from typing import Annotated, Literal

from mcp.server.mcpserver import MCPServer
from pydantic import Field

Pie = Literal["apple", "cherry", "pecan"]
PRICES = {"apple": 4, "cherry": 5, "pecan": 6}

server = MCPServer("kitchen")


@server.tool()
def price(pie: Pie) -> int:
    """Tells what one pie costs."""
    return PRICES[pie]


@server.tool()
def order(pie: Pie, count: Annotated[int, Field(ge=1, le=9)]) -> str:
    """Orders pies."""
    return f"{count} {pie} for {count * PRICES[pie]}"


if __name__ == "__main__":
    server.run("stdio")
