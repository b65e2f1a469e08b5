"""The conversations of these tests."""

from __future__ import annotations

import json
from typing import Any

from templates.driver import CUE, answer, assistant, system, tools, user

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city — now",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Its <name>"},
                "days": {"type": "integer", "default": 3},
            },
            "required": ["city"],
        },
    },
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds",
        "parameters": {
            "type": "object",
            "properties": {"xs": {"type": "array", "items": {"type": "number"}}},
            "required": ["xs"],
        },
    },
}

# Turns in the form in which an inferlet adds them.
TURNS = [
    [user("Hi"), CUE],
    [system("Be brief."), user("  Hi there \n"), CUE],
    [system("Be brief."), user("a"), assistant("b"), user("c ünï 🥧"), CUE],
    [user("a"), assistant("b"), user("c"), assistant("d"), user("e"), CUE],
    [user("a <b"), assistant("> 1"), user("\n\nc"), CUE],
    [tools(WEATHER, ADD), user("Weather?"), CUE],
    [system("Be kind."), tools(WEATHER), user("Weather?"), CUE],
    [system("Be kind."), tools(WEATHER, ADD), user("W?"), assistant("b"), user("c"), CUE],
    [user("W?"), assistant("Let me see."), answer("add", "three"), answer("add", "four"), CUE],
]


def says(turns: list[dict[str, Any]], kind: str) -> bool:
    return any(turn["kind"] == kind for turn in turns)


def messages(turns: list[dict[str, Any]], *, fold: bool = False) -> dict[str, Any]:
    """The same conversation in the form that transformers takes."""
    said: list[dict[str, Any]] = []
    given: list[Any] | None = None
    folded = ""
    for turn in turns:
        match turn["kind"]:
            case "tools":
                given = [json.loads(schema) for schema in turn["tools"]]
            case "answer":
                number = sum(message["role"] == "tool" for message in said)
                message = {"role": "tool", "name": turn["name"], "content": turn["text"]}
                said.append({**message, "tool_call_id": f"{number:09}"})
            case "system" if fold:
                folded = turn["text"] + "\n\n"
            case "cue":
                pass
            case role:
                said.append({"role": role, "content": folded + turn["text"]})
                folded = ""
    return {"messages": said, "tools": given, "cue": turns[-1] == CUE}


def call(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    """An assistant's message that calls a tool."""
    function = {"name": name, "arguments": arguments}
    calls = [{"id": "000000000", "type": "function", "function": function}]
    return {"role": "assistant", "tool_calls": calls, **more}


def said(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": text, **more}


RESULT = {"role": "tool", "name": "add", "tool_call_id": "000000000"}

# Whole conversations in the form that transformers takes.
RENDERINGS = [
    {"messages": [said("user", "Hi")]},
    {"messages": [said("user", "Hi")], "cue": True},
    {"messages": [said("system", "Be brief."), said("user", "  Hi there\n")], "cue": True},
    {"messages": [said("user", "a"), said("assistant", "b"), said("user", "c")], "cue": True},
    {"messages": [said("user", "a"), said("assistant", "b")]},
    {
        "messages": [
            said("user", "a"),
            said("assistant", "<think>\nwhy\n</think>\n\nb"),
            said("user", "c"),
        ],
        "cue": True,
    },
    {"messages": [said("user", "Weather?")], "tools": [WEATHER, ADD], "cue": True},
    {"messages": [said("system", "S"), said("user", "W?")], "tools": [WEATHER], "cue": True},
    {"messages": [said("user", "?"), call("add", {"xs": [1, 2]}, content="")], "tools": [ADD]},
    {"messages": [said("user", "?"), call("add", {"xs": []})], "tools": [ADD]},
    {
        "messages": [
            said("user", "?"),
            call("get_weather", {"city": "Øslo"}, content=""),
            {**RESULT, "content": '{"temp": 3}'},
        ],
        "tools": [WEATHER],
        "cue": True,
    },
    {
        "messages": [
            said("user", "?"),
            call("add", {"xs": [1]}, content=""),
            {**RESULT, "content": "1"},
            {**RESULT, "content": "2", "tool_call_id": "000000001"},
            said("assistant", "done"),
            said("user", "more"),
        ],
        "tools": [ADD],
        "cue": True,
    },
    {"messages": [said("user", "?"), said("assistant", "x", reasoning_content="because")]},
    {"messages": [said("user", "?"), said("assistant", "x", thinking="because")]},
    {
        "messages": [
            said("user", "?"),
            said("assistant", "x", reasoning_content="because"),
            said("user", "v"),
        ],
        "cue": True,
    },
]
