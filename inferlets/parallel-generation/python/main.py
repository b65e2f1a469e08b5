"""Several answers to one prompt at once. The prompt is computed once: the forks share its pages."""

import asyncio

from inferlet import Context, Model, Sampler, runtime


async def main(input: dict) -> list[str]:
    model = Model.load(runtime.models()[0])
    with Context(model) as prefix:
        prefix.system("You are a helpful assistant.")
        prefix.user(input.get("prompt", "Name a kind of pie."))
        await prefix.flush()

        async def answer() -> str:
            with prefix.fork() as ctx:
                generator = ctx.generate(
                    Sampler.top_p(1.0, 0.95), max_tokens=input.get("max_tokens", 64)
                )
                return await generator.collect_text()

        return await asyncio.gather(*(answer() for _ in range(input.get("n", 3))))
