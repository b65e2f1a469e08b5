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
            logits = step.clear_sampler().probe(len(ctx.buffer()) - 1, Logits())
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
    options = {"constrain": constraint, "stop": [], "max_tokens": max_tokens}
    with generator_for(prompt, **options) as generator:
        tokens = await generator.collect_tokens()
    return {"tokens": tokens, "calls": constraint.calls[:3]}


@case
async def generate_masked(prompt: str, allowed: list[int], max_tokens: int) -> list[int]:
    options = {"logit_mask": brle.allow(allowed), "stop": [], "max_tokens": max_tokens}
    with generator_for(prompt, **options) as generator:
        return await generator.collect_tokens()


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
