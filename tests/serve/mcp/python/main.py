"""Asks MCP servers what its input says, as the program in Rust beside it."""

from inferlet import PieError, mcp


def ask(call: list[str]) -> str:
    what, *rest = call
    if what == "servers":
        return " ".join(mcp.available_servers())
    with mcp.connect(rest[0]) as server:
        match what:
            case "tools":
                return server.list_tools()
            case "call":
                return server.call_tool(rest[1], rest[2])
            case "resources":
                return server.list_resources()
            case "read":
                return server.read_resource(rest[1])
            case "prompts":
                return server.list_prompts()
            case _:
                return server.get_prompt(rest[1], rest[2])


def answer(call: list[str]) -> str:
    try:
        return ask(call)
    except PieError as error:
        return f"error: {error}"


async def main(input: dict):
    return [answer(call) for call in input["calls"]]
