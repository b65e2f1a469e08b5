"""The engine refuses with an exception, and the program goes on."""

from collections.abc import Callable
from typing import Any

from table import GREEDY, case, load_model

from inferlet import (
    Context,
    Distribution,
    Grammar,
    McpError,
    Model,
    Regex,
    Sampler,
    mcp,
    messaging,
    session,
)


def refused(attempt: Callable[..., Any], *args: Any) -> bool:
    """Returns whether the call raises an error with a text."""
    try:
        attempt(*args)
    except Exception as error:
        return str(error) != ""
    return False


@case
async def refusals(topic: str) -> dict:
    model = load_model()
    queued = 0
    while not refused(messaging.push, topic, "message"):
        queued += 1
    with Context(model) as ctx, Context(model) as empty:
        ctx.append([97])
        return {
            "queue": queued,
            "push": True,
            "topic": refused(messaging.push, "t" * 2000, "message"),
            "send": refused(session.send, "x" * ((16 << 20) + 1)),
            "bid": refused(ctx.set_bid, -1.0),
            "regex": refused(lambda: ctx.generate(GREEDY, constrain=Regex("("), auto_flush=False)),
            "truncate": refused(empty.truncate, 1),
            "goes_on": await goes_on(ctx),
        }


@case
async def wrong_types() -> list[str]:
    model = load_model()
    ctx = Context(model)
    forward = ctx.forward().input([97])
    attempts: dict[str, tuple[str, Callable[[], Any]]] = {
        "text": ("text", lambda: ctx.user(3)),
        "tokens": ("tokens", lambda: ctx.append("ab")),
        "fraction": ("tokens", lambda: ctx.append([1.5])),
        "negative": ("tokens", lambda: ctx.append([-1])),
        "count": ("n", lambda: ctx.truncate("1")),
        "sampler": ("sampler", lambda: ctx.generate("greedy")),
        "limit": ("max_tokens", lambda: ctx.generate(GREEDY, max_tokens="3")),
        "temperature": ("temperature", lambda: Sampler.top_p("hot", 0.9)),
        "row": ("indices", lambda: forward.sample("0", GREEDY)),
        "pattern": ("p", lambda: Grammar.from_regex(3)),
        "topic": ("topic", lambda: messaging.push(3, "m")),
        "bytes": ("data", lambda: session.send_file("text")),
        "name": ("name", lambda: Model.load(3)),
    }
    failed = []
    for name, (argument, attempt) in attempts.items():
        try:
            attempt()
        except (TypeError, ValueError) as error:
            failed += [name] * (argument in str(error))
    return failed


@case
async def wrong_ranges() -> list[str]:
    ctx = Context(load_model())
    forward = ctx.forward().input([97])
    attempts: dict[str, tuple[str, Callable[[], Any]]] = {
        "temperature": ("temperature", lambda: Sampler.top_p(-1.0, 0.9)),
        "top_p": ("p", lambda: Sampler.top_p(1.0, 2.0)),
        "min_p": ("p", lambda: Sampler.min_p(1.0, -0.5)),
        "distribution": ("temperature", lambda: forward.probe(0, Distribution(-1.0, 5))),
    }
    failed = []
    for name, (argument, attempt) in attempts.items():
        try:
            attempt()
        except ValueError as error:
            failed += [name] * str(error).startswith(f"{argument} must be ")
    return failed


@case
async def mcp_error() -> dict:
    try:
        mcp.connect("none")
    except McpError as error:
        return {"text": str(error), "has_code": str(error).endswith(f" (code {error.code})")}
    return {}


async def goes_on(ctx: Context) -> bool:
    """Whether the context still generates."""
    generator = ctx.generate(GREEDY, max_tokens=3, auto_flush=False).stop([])
    return len(await generator.collect_tokens()) == 3
