"""An MCP server over stdio that misbehaves in the way that its argument names."""

from __future__ import annotations

import json
import sys
import time

PIES = {
    "type": "object",
    "properties": {"pie": {"enum": ["plum"]}},
    "required": ["pie"],
    "additionalProperties": False,
}
# A list of tools of which one can be used as it is.
ODD = [
    {"name": "price", "inputSchema": PIES},
    {"name": "odd", "inputSchema": {"type": "object", "properties": {"x": {"type": "nonsense"}}}},
    {"name": 5, "inputSchema": PIES},
    {"inputSchema": PIES},
    "text",
]


def answer(message: dict, result: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


def main(how: str) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        if message["method"] == "initialize" and how != "mute":
            hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}}
            answer(message, hello)
        elif how == "odd":
            if message["method"] == "tools/list":
                answer(message, {"tools": ODD})
            else:
                answer(message, {"content": [{"type": "text", "text": "3"}]})
        elif how == "garbage":
            print("{not JSON\n[[[\n" + "[" * 100_000, flush=True)
            print(json.dumps({"jsonrpc": "2.0", "id": "a", "result": 1}), flush=True)
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"] + 7, "result": 1}), flush=True)
            answer(message, {"tools": []})
        elif how == "deep":
            error = {"code": -1, "message": "deep", "data": "DEEP"}
            text = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error})
            print(text.replace('"DEEP"', "[" * 500_000 + "]" * 500_000), flush=True)
        elif how == "flood":
            while True:
                print("x" * 1_000_000, flush=True)
        elif how == "line":
            while True:
                sys.stdout.write("x" * 1_000_000)
        elif how == "loud":
            sys.stderr.write("noise\n" * 1_000_000)
            answer(message, {"tools": []})
        elif how == "shape":
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": [5]}), flush=True)
        else:
            time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1])
