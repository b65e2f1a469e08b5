"""Does over its session what a client asks for, as the program in Rust beside it."""

import asyncio
import sys

from inferlet import session


async def main(input: dict):
    match input["do"]:
        case "speak":
            session.send("text")
            session.send({"event": "tick", "n": 3})
            print("printed", flush=True)
            print("complained", file=sys.stderr, flush=True)
            session.send_file(bytes([0, 1, 255]))
            return {"spoken": 5}
        case "echo":
            while True:
                try:
                    message = await session.receive()
                except ConnectionError:
                    return "the client left"
                if message == "stop":
                    return "stopped"
                session.send(message)
        case "both":
            return sorted(await asyncio.gather(session.receive(), session.receive()))
        case "echo-file":
            data = await session.receive_file()
            session.send_file(data)
            return len(data)
        case "count":
            for i in range(input["n"]):
                session.send(str(i))
            return input["n"]
        case "print":
            print("one")
            print("several\nlines", 2)
            print("no newline", end="")
            if input["end"] == "fail":
                raise ValueError("it failed as asked")
            if input["end"] == "exit":
                sys.exit(3)
            return "printed"
        case "fail":
            raise ValueError("it failed as asked")
