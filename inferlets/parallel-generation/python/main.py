"""Several answers to one prompt: it is computed once, its forks share the pages and run at once."""

import asyncio

from inferlet import Context, Model, Sampler, runtime


async def main(input: dict) -> list[str]:
    model = Model.load(runtime.models()[0])
    with Context(model) as prefix:
        prefix.system("You are a helpful assistant.")
        prefix.user(input.get("prompt", "Tell me about pie."))
        await prefix.flush()

        async def answer() -> str:
            with prefix.fork() as ctx:
                sampler = Sampler.top_p(0.8, 0.95)
                generator = ctx.generate(sampler, max_tokens=input.get("max_tokens", 32))
                return await generator.collect_text()

        return await asyncio.gather(*(answer() for _ in range(input.get("n", 4))))
