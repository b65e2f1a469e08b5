"""Answers a question by thinking and calling tools in turns (ReAct). No call can be malformed: the
grammar of the model's own call format holds it, with the arguments' schemas."""

import json

from inferlet import Context, GrammarConstraint, Model, Regex, Sampler, runtime, tools

PRICES = {"apple": 4, "cherry": 6, "plum": 5}
NUMBER = {"type": "integer", "minimum": 0, "maximum": 9999}
THOUGHT = Regex(r"Thought: [^\n<]{1,160}\n")


def price(pie: str) -> int:
    return PRICES[pie]


def multiply(a: int, b: int) -> int:
    return a * b


def finish(answer: str) -> str:
    return answer


def schema(name: str, description: str, **properties: dict) -> dict:
    parameters = {"type": "object", "properties": properties, "required": [*properties]}
    parameters["additionalProperties"] = False
    return {"name": name, "description": description, "parameters": parameters}


SCHEMAS = [
    schema("price", "Tells the price of a pie.", pie={"enum": [*PRICES]}),
    schema("multiply", "Multiplies two numbers.", a=NUMBER, b=NUMBER),
    schema("finish", "Answers the question.", answer={"type": "string", "maxLength": 60}),
]
TOOLS = {"price": price, "multiply": multiply, "finish": finish}


async def main(input: dict) -> dict:
    model = Model.load(runtime.models()[0])
    matcher = tools.native_matcher(model, SCHEMAS)
    if matcher is None:
        raise ValueError("the tool calls of this model cannot be held by a grammar")
    max_steps = input.get("max_steps", 8)
    steps = []
    with Context(model) as ctx:
        ctx.system("Think in one line, then call a tool. Call finish with the answer.")
        ctx.equip_tools(SCHEMAS).user(input["question"])
        for number in range(max_steps):
            seed = input.get("seed", 0) + 1000 * number
            sampler = Sampler.top_p(input.get("temperature", 0), 0.95, seed=seed)
            thought = await ctx.generate(sampler, constrain=THOUGHT, max_tokens=200).collect_text()
            matcher.reset()
            call = await ctx.generate(
                sampler, constrain=GrammarConstraint(matcher), max_tokens=400, auto_flush=False
            ).collect_tokens()
            event = tools.Decoder(model).feed(call)
            if not isinstance(event, tools.Event.Call):
                raise ValueError("the call is not complete after 400 tokens")
            arguments = json.loads(event.args)
            result = TOOLS[event.name](**arguments)
            step = {"thought": thought.removeprefix("Thought: ").strip(), "tool": event.name}
            steps.append({**step, "arguments": arguments, "result": result})
            if event.name == "finish":
                return {"answer": result, "steps": steps}
            ctx.seal().answer_tool(event.name, result)
    raise ValueError(f"there is no answer after {max_steps} steps: {json.dumps(steps)}")
