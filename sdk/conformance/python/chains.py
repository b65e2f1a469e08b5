"""Cases about the two forms of a generation: run by the engine, and step by step."""

import asyncio
import contextlib
from typing import Any

from table import GREEDY, case, load_model

from inferlet import Context, Generator, PieError, Sampler, chat


def generator_of(ctx: Context, seed: int, tokens: list[int], max_tokens: int) -> Generator:
    """Up to a stop token or the limit; greedy, or drawn from the seed."""
    sampler = Sampler.top_p(1.0, 0.95) if seed else GREEDY
    options = {"seed": seed} if seed else {}
    return ctx.generate(sampler, max_tokens=max_tokens, stop=tokens, auto_flush=False, **options)


def asked(prompt: str) -> Context:
    return Context(load_model()).user(prompt).cue()


async def steps(generator: Generator, n: int | None = None) -> list[int]:
    """At most `n` steps."""
    tokens: list[int] = []
    ran = 0
    while ran != n:
        try:
            step = await anext(generator)
        except StopAsyncIteration:
            break
        tokens += (await step.execute()).tokens
        ran += 1
    return tokens


async def state_of(ctx: Context) -> list[Any]:
    """Where a context stands, and what it says next."""
    state = [ctx.seq_len, list(ctx.buffer())]
    ctx.append([97])
    generator = ctx.generate(GREEDY, max_tokens=3, auto_flush=False)
    return [*state, await generator.collect_tokens()]


@case
async def generate_chained(prompt: str, seed: int, tokens: list[int], max_tokens: int) -> dict:
    with asked(prompt) as stepped, asked(prompt) as a, asked(prompt) as b:
        expected = await steps(generator_of(stepped, seed, tokens, max_tokens))
        decoder = chat.Decoder(stepped.model)
        events = [decoder.feed([token]) for token in expected]
        text = "".join(event.text for event in events if isinstance(event, chat.Event.Delta))
        state = await state_of(stepped)
        collected = await generator_of(a, seed, tokens, max_tokens).collect_tokens()
        said = await generator_of(b, seed, tokens, max_tokens).collect_text()
        return {
            "tokens": expected,
            "state": state,
            "same_tokens": collected == expected,
            "same_text": said == text,
            "same_state": await state_of(a) == state and await state_of(b) == state,
        }


@case
async def generate_left(prompt: str, seed: int, tokens: list[int], n: int, max_tokens: int) -> dict:
    with asked(prompt) as ctx, asked(prompt) as other:
        had = await steps(generator_of(ctx, seed, tokens, max_tokens), n)
        length = ctx.seq_len
        rest = await generator_of(ctx, seed, tokens, max_tokens - len(had)).collect_tokens()
        whole = await generator_of(other, seed, tokens, max_tokens).collect_tokens()
        skipped = await is_refused_after_a_skipped_step(other)
        return {"length": length, "same": had + rest == whole, "skipped": skipped}


async def is_refused_after_a_skipped_step(ctx: Context) -> bool:
    left = ctx.generate(GREEDY, auto_flush=False).stop([])
    await anext(left)
    try:
        await anext(left)
    except PieError as error:
        return "was not executed" in str(error)
    return False


@case
async def generate_cancelled(prompt: str, ms: int, max_tokens: int) -> dict:
    def greedy(ctx: Context, tokens: int) -> Generator:
        return ctx.generate(GREEDY, max_tokens=tokens, auto_flush=False).stop([])

    with asked(prompt) as ctx, asked(prompt) as other:
        whole = await greedy(other, max_tokens).collect_tokens()
        had = -len(ctx.buffer())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(greedy(ctx, max_tokens).collect_tokens(), ms / 1000)
        had += ctx.seq_len + len(ctx.buffer())
        rest = await greedy(ctx, max_tokens - had).collect_tokens()
        return {"same": rest == whole[had:]}
