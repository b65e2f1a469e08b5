"""Works on a task with the tools of an MCP server. A grammar makes every call well-formed."""

import json

from inferlet import Context, GrammarConstraint, Model, Sampler, mcp, runtime, tools

FINISH = {
    "type": "function",
    "function": {
        "name": "finish",
        "description": "Ends the work with an answer.",
        "parameters": {
            "type": "object",
            "properties": {"answer": {"type": "string", "maxLength": 200}},
            "required": ["answer"],
            "additionalProperties": False,
        },
    },
}


def schema(tool: dict) -> dict:
    """A tool of the server in the form that models know."""
    function = {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": tool["inputSchema"],
    }
    return {"type": "function", "function": function}


def text(result: str) -> str:
    return "\n".join(part.get("text", "") for part in json.loads(result)["content"])


async def call(ctx: Context, schemas: list[dict], input: dict) -> tuple[str, str]:
    """Generates a call of one of these tools. Returns its name and its arguments as JSON."""
    matcher = tools.native_matcher(ctx.model, schemas)
    if matcher is None:
        raise ValueError("this model has no grammar of tool calls")
    sampler = Sampler.top_p(input.get("temperature", 0), 0.95, seed=input.get("seed"))
    generator = ctx.generate(sampler, constrain=GrammarConstraint(matcher), max_tokens=1000)
    match tools.Decoder(ctx.model).feed(await generator.collect_tokens()):
        case tools.Event.Call(name=name, args=args):
            return name, args
        case _:
            raise ValueError("the call was longer than 1000 tokens")


async def main(input: dict) -> dict:
    server = mcp.connect(input["server"])
    known = [schema(tool) for tool in json.loads(server.list_tools())["tools"]]
    calls = []
    with Context(Model.load(runtime.models()[0])) as ctx:
        ctx.equip_tools([*known, FINISH]).system("Work on the task with your tools, then finish.")
        ctx.user(input["task"])
        while True:
            done = len(calls) == input.get("max_calls", 8)
            name, args = await call(ctx.cue(), [FINISH] if done else [*known, FINISH], input)
            ctx.seal()
            if name == "finish":
                return {"calls": calls, "answer": json.loads(args)["answer"]}
            result = text(server.call_tool(name, args))
            calls.append({"name": name, "arguments": json.loads(args), "result": result})
            ctx.answer_tool(name, result)
