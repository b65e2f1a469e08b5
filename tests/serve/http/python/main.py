"""Answers HTTP requests in a different way for each path."""

import asyncio
import json
import os
import urllib.error
import urllib.request

from inferlet import Context, Model, Sampler, http, runtime
from inferlet.errors import PieError

MAX_BODY_BYTES = 8 << 20


async def handle(request: http.Request, respond: http.Responder) -> None:
    match request.path:
        case "/about":
            about = {
                "method": request.method,
                "query": request.query,
                "headers": dict(request.headers),
                "user": runtime.username(),
                "instance": runtime.instance_id(),
                "input": os.environ.get("PIE_INPUT", ""),
            }
            await respond.send(json.dumps(about), headers={"content-type": "application/json"})
        case "/echo":
            await respond.send(await request.body(MAX_BODY_BYTES), status=201)
        case "/pipe":
            body = respond.start()
            async for piece in request:
                await body.write(piece)
            body.finish()
        case "/stream":
            body = respond.start(headers={"content-type": "text/event-stream"})
            for i in range(3):
                await body.write(f"data: {i}\n\n")
                await asyncio.sleep(0.05)
            body.finish()
        case "/cut":
            await respond.start().write("half")
        case "/trap":
            raise ValueError("as asked")
        case "/none":
            pass
        case "/generate":
            with Context(Model.load(runtime.models()[0])) as ctx:
                ctx.user("hello").cue()
                await respond.send(
                    await ctx.generate(Sampler.argmax(), max_tokens=8).collect_text()
                )
        case "/fetch":
            await fetch(request.query, respond)
        case "/post":
            answer = await http.post(request.query, json={"a": [1, "ü"]}, headers={"x-key": "k"})
            await respond.send(json.dumps([answer.status, answer.ok, await answer.json()]))
        case "/library":
            await library(request.query, respond)
        case "/files":
            await respond.send(json.dumps(files()))
        case _:
            await respond.send("no such path", status=404)


async def fetch(url: str, respond: http.Responder) -> None:
    try:
        text = await (await http.get(url, timeout=5)).text()
    except PieError as error:
        await respond.send(str(error), status=502)
    else:
        await respond.send(text)


async def library(url: str, respond: http.Responder) -> None:
    """The same by `urllib.request`, which follows redirects."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            await respond.send(answer.read(), status=answer.status)
    except urllib.error.HTTPError as error:
        await respond.send(error.read(), status=error.code)
    except OSError as error:
        await respond.send(str(error), status=502)


def files() -> list[object]:
    os.makedirs("/scratch/a/b")
    with open("/scratch/a/text", "w", encoding="utf-8") as file:
        file.write("one\n")
    with open("/scratch/a/text", "a", encoding="utf-8") as file:
        file.write("two\n")
    with open("/scratch/a/text", encoding="utf-8") as file:
        text = file.read()
    seen = [text, sorted(os.listdir("/scratch/a")), os.stat("/scratch/a/text").st_size]
    os.remove("/scratch/a/text")
    os.rmdir("/scratch/a/b")
    return [*seen, os.listdir("/scratch/a"), os.path.exists("/scratch/a/text")]
