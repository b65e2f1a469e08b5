"""Asks the same several times and returns the result that most of the answers agree on. What an
answer thinks before its last word does not count."""

import asyncio
import re
from collections import Counter

from inferlet import Context, Model, Sampler, runtime


def result_of(text: str) -> str:
    """The last word of a text, without punctuation."""
    words = re.findall(r"\w+", text)
    return words[-1] if words else ""


async def main(input: dict) -> dict:
    model = Model.load(runtime.models()[0])
    n, max_tokens = input.get("n", 9), input.get("max_tokens", 128)
    if n < 1:
        raise ValueError("n must be at least 1")
    with Context(model) as prefix:
        prefix.system("Think step by step. The last word of your answer is the result.")
        prefix.user(input["prompt"])
        await prefix.flush()

        async def ask() -> str:
            with prefix.fork() as ctx:
                sampler = Sampler.top_p(0.8, 0.95)
                return await ctx.generate(sampler, max_tokens=max_tokens).collect_text()

        texts = await asyncio.gather(*(ask() for _ in range(n)))
    answer, votes = Counter(result_of(text) for text in texts).most_common(1)[0]
    return {"answer": answer, "votes": votes}
