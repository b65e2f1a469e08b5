"""Cases about contexts, clones and snapshots."""

import asyncio
import inspect
from typing import Any

from table import GREEDY, case, context_with, encode, load_model

from inferlet import Context, PieError, tools


@case
async def context(text: str) -> dict:
    model = load_model()
    with Context(model) as ctx:
        ctx.append(encode(model, text))
        buffered, before = len(ctx.buffer()), ctx.seq_len
        await ctx.flush()
        after = ctx.seq_len
        ctx.truncate(2)
        return {
            "page_size": ctx.page_size,
            "buffered": buffered,
            "before": before,
            "after": after,
            "truncated": ctx.seq_len,
        }


@case
async def flush_empty() -> dict:
    with Context(load_model()) as ctx:
        await ctx.flush()
        return {"seq_len": ctx.seq_len}


@case
async def turns(script: list[dict]) -> list:
    ctx = Context(load_model())
    tokens: list[int] = []
    for step in script:
        text = step.get("text", "")
        match step["do"]:
            case "system" | "user" | "assistant" as role:
                getattr(ctx, role)(text)
            case "tools":
                ctx.equip_tools(step["tools"])
            case "answer":
                ctx.answer_tool(step["name"], text)
            case "calls":
                ctx.assistant_calls(text, [tools.Call(**call) for call in step["calls"]])
            case "answer_call":
                ctx.answer_call(tools.Call(**step["calls"][0]), text)
            case "cue" | "seal" as turn:
                getattr(ctx, turn)()
            case "append":
                ctx.append(step["tokens"])
            case "flush":
                tokens += ctx.buffer()
                await ctx.flush()
            case "fork":
                ctx = ctx.fork()
    return tokens + ctx.buffer()


@case
async def template_option(text: str, name: str, value: Any) -> dict:
    model = load_model()

    def cued() -> list[int]:
        with Context(model) as ctx:
            return ctx.user(text).cue().buffer()

    def takes(name: str, value: Any) -> bool:
        try:
            model.template_option(name, value)
        except PieError:
            return False
        return True

    model.template_option(name, value)
    tokens = cued()
    model.template_option(name, None)
    return {
        "added": model.tokenizer().decode(tokens[len(cued()) :]),
        "refused": not takes("messages", True),
        "unknown": takes("no_such_variable", "text"),
    }


@case
async def cached_tokens(text: str) -> dict:
    model = load_model()
    with await context_with(model, text), Context(model) as second:
        fresh = second.cached_tokens
        await second.append(encode(model, text)).flush()
        with second.fork() as fork:
            return {
                "fresh": fresh,
                "found": second.cached_tokens > 0,
                "fork": fork.cached_tokens,
            }


@case
async def fork(prompt: str, max_tokens: int) -> dict:
    with Context(load_model()) as parent:
        await parent.user(prompt).flush()
        with parent.fork() as child:
            ours, theirs = await asyncio.gather(
                parent.generate(GREEDY, max_tokens=max_tokens).collect_tokens(),
                child.generate(GREEDY, max_tokens=max_tokens).collect_tokens(),
            )
            await child.append([97]).flush()
            return {
                "same": ours == theirs,
                "parent_len": parent.seq_len,
                "fork_len": child.seq_len,
            }


@case
async def fork_parallel(prompt: str, n: int, max_tokens: int) -> list:
    with Context(load_model()) as parent:
        await parent.user(prompt).flush()

        async def branch(index: int) -> list[int]:
            with parent.fork() as ctx:
                ctx.append([97 + index])
                return await ctx.generate(GREEDY, max_tokens=max_tokens).collect_tokens()

        return await asyncio.gather(*map(branch, range(n)))


@case
async def released(text: str) -> list[str]:
    ctx = await context_with(load_model(), text)
    ctx.release()

    async def forward() -> None:
        await ctx.forward().input([97]).execute()

    uses = {
        "fill": lambda: ctx.user(text),
        "flush": lambda: ctx.flush(),
        "fork": lambda: ctx.fork(),
        "save": lambda: ctx.save("released"),
        "snapshot": lambda: ctx.snapshot(),
        "truncate": lambda: ctx.truncate(1),
        "bid": lambda: ctx.set_bid(1),
        "generate": lambda: ctx.generate(GREEDY, max_tokens=1).collect_tokens(),
        "forward": forward,
    }
    failed = []
    for name, use in uses.items():
        try:
            given = use()
            if inspect.isawaitable(given):
                await given
        except PieError as error:
            failed += [name] * ("released" in str(error))
    return failed


@case
async def save_open(name: str, text: str) -> dict:
    model = load_model()
    with await context_with(model, text) as ctx:
        ctx.save(name)
        with Context.open(model, name) as copy:
            same_len = ctx.seq_len == copy.seq_len
            same_token = await next_token(ctx) == await next_token(copy)
        missing = Context.open(model, f"{name}-missing") is None
        taken = Context.take(model, name)
        taken_missing = taken is not None and Context.open(model, name) is None
        snapshot = ctx.snapshot()
        Context.delete(model, snapshot)
        return {
            "same_len": same_len,
            "same_token": same_token,
            "missing": missing,
            "taken_missing": taken_missing,
            "named": snapshot != "",
        }


@case
async def forgotten(n: int) -> int:
    model = load_model()
    for _ in range(n):
        await Context(model).flush()
    return n


@case
async def keep(name: str, text: str) -> int:
    with await context_with(load_model(), text) as ctx:
        ctx.save(name)
        return ctx.seq_len


@case
async def open_named(name: str) -> int | None:
    found = Context.open(load_model(), name)
    return None if found is None else found.seq_len


async def next_token(ctx: Context) -> int | None:
    """Returns the token that greedily follows the token 97. The context stays as it is."""
    forward = ctx.forward().input_at([97], [ctx.seq_len])
    handle = forward.sample([0], GREEDY)
    return (await forward.execute()).token(handle)


@case
async def rollback(text: str, n: int) -> dict:
    model = load_model()
    tokens = encode(model, text)
    with await context_with(model, text) as ctx, ctx.fork() as fork:
        before = await next_token(ctx)
        ctx.truncate(n)
        length = ctx.seq_len
        await ctx.append(tokens[len(tokens) - n :]).flush()
        return {
            "length": length,
            "same": ctx.seq_len == len(tokens) and await next_token(ctx) == before,
            "fork_same": fork.seq_len == len(tokens) and await next_token(fork) == before,
        }


@case
async def save_buffered(name: str, text: str) -> dict:
    model = load_model()
    with Context(model) as ctx, await context_with(model, text) as whole:
        ctx.append(encode(model, text)).save(name)
        untouched = ctx.seq_len == 0 and ctx.buffer() == encode(model, text)
        with Context.take(model, name) as saved:
            same = saved.seq_len == whole.seq_len and not saved.buffer()
            return {
                "same": same and await next_token(saved) == await next_token(whole),
                "untouched": untouched,
            }
