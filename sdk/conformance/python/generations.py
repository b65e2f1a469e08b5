"""Cases about generation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from table import GREEDY, argmax, case, load_model

from inferlet import Context, Entropy, Generator, Logits, Sampler, brle


@contextmanager
def generator_for(prompt: str, sampler: Sampler = GREEDY, **options: Any) -> Iterator[Generator]:
    with Context(load_model()) as ctx:
        yield ctx.user(prompt).generate(sampler, **options)


@case
async def generate_tokens(prompt: str, max_tokens: int) -> list[int]:
    with generator_for(prompt, max_tokens=max_tokens) as generator:
        return await generator.collect_tokens()


@case
async def generate_flushed(prompt: str, max_tokens: int) -> dict:
    model = load_model()
    options = {"max_tokens": max_tokens, "auto_flush": False}
    with Context(model) as ctx, Context(model) as other:
        await ctx.user(prompt).cue().flush()
        length = ctx.seq_len
        tokens = await ctx.generate(GREEDY, **options).collect_tokens()
        await other.user(prompt).cue().flush()
        generator = other.generate(GREEDY, **options)
        entropy = generator.probe_each_step(0, Entropy())
        stepped, probed = [], True
        async for step in generator:
            out = await step.execute()
            probed = probed and out.entropy(entropy) is not None
            stepped += out.tokens
        grown = other.seq_len + len(other.buffer()) - length
        return {
            "tokens": tokens,
            "same_stepped": stepped == tokens,
            "probed": probed,
            "grown": grown == len(tokens),
        }


@case
async def generate_text(prompt: str, max_tokens: int) -> str:
    with generator_for(prompt, max_tokens=max_tokens) as generator:
        return await generator.collect_text()


@case
async def generate_steps(prompt: str, max_tokens: int) -> dict:
    with generator_for(prompt, max_tokens=max_tokens) as generator:
        tokens = []
        async for step in generator:
            tokens += (await step.execute()).tokens
        return {
            "tokens": tokens,
            "generated": generator.tokens_generated,
            "done": generator.is_done,
        }


@case
async def generate_manual(prompt: str, max_tokens: int) -> list[int]:
    with Context(load_model()) as ctx:
        generator = ctx.user(prompt).generate(GREEDY, max_tokens=max_tokens)
        tokens = []
        async for step in generator:
            logits = step.clear_sampler().probe(0, Logits())
            out = await step.execute()
            tokens += generator.accept([argmax(out.logits(logits))])
        return tokens


@case
async def generate_override(prompt: str, token: int, max_tokens: int) -> dict:
    with generator_for(prompt, max_tokens=max_tokens) as generator:
        tokens = []
        async for step in generator:
            await step.execute()
            tokens += generator.accept([token])
        return {
            "tokens": tokens,
            "generated": generator.tokens_generated,
            "done": generator.is_done,
        }


class OnlyThese:
    """Allows some ids, and notes what it is told."""

    def __init__(self, allowed: list[int]) -> None:
        self.mask = brle.allow(allowed)
        self.calls: list[list[int]] = []

    def step(self, accepted: list[int]) -> list[int]:
        self.calls.append(accepted)
        return self.mask


@case
async def generate_constrained(prompt: str, allowed: list[int], max_tokens: int) -> dict:
    constraint = OnlyThese(allowed)
    with generator_for(prompt, constrain=constraint, max_tokens=max_tokens) as generator:
        tokens = await generator.collect_tokens()
    return {"tokens": tokens, "calls": constraint.calls[:3]}


def masked(prompt: str, allowed: list[int], max_tokens: int, **options: Any):
    """Greedy among the allowed tokens."""
    return generator_for(prompt, logit_mask=brle.allow(allowed), max_tokens=max_tokens, **options)


@case
async def generate_masked(prompt: str, allowed: list[int], max_tokens: int) -> list[int]:
    with masked(prompt, allowed, max_tokens) as generator:
        return await generator.collect_tokens()


@case
async def generate_stops(
    prompt: str, allowed: list[int], tokens: list[int], max_tokens: int
) -> dict:
    given = (prompt, allowed, max_tokens)
    with (
        masked(*given) as own,
        masked(*given, stop=tokens) as added,
        masked(*given) as replaced,
        masked(*given) as none,
    ):
        return {
            "own": await own.collect_tokens(),
            "added": await added.collect_tokens(),
            "replaced": await replaced.stop(tokens).collect_tokens(),
            "none": await none.stop([]).collect_tokens(),
        }


@case
async def generate_special(prompt: str, allowed: list[int], seed: int, max_tokens: int) -> dict:
    def random(**options: Any):
        """Every allowed token is about as likely as any other."""
        sampler = Sampler.top_p(1000.0, 1.0)
        return generator_for(prompt, sampler, seed=seed, max_tokens=max_tokens, **options)

    mask = brle.allow(allowed)
    with (
        random(logit_mask=mask) as first,
        random(logit_mask=mask) as second,
        random(constrain=OnlyThese(allowed)) as stepped,
    ):
        return {
            "tokens": await first.collect_tokens(),
            "text": await second.collect_text(),
            "stepped": await stepped.collect_text(),
        }


@case
async def generate_probed(prompt: str, max_tokens: int) -> list[float | None]:
    with generator_for(prompt, max_tokens=max_tokens) as generator:
        entropy = generator.probe_each_step(0, Entropy())
        return [(await step.execute()).entropy(entropy) async for step in generator]


@case
async def generate_seeded(prompt: str, seed: int, max_tokens: int) -> dict:
    async def draw(seed: int) -> list[int]:
        sampler = Sampler.top_p(1.0, 0.95)
        with generator_for(prompt, sampler, seed=seed, max_tokens=max_tokens) as generator:
            return await generator.collect_tokens()

    first = await draw(seed)
    return {"same": first == await draw(seed), "differs": first != await draw(seed + 1)}
