"""Generates tokens as bench/sdk.py asks for, and says what one took."""

import time
from typing import Any

from inferlet import Context, Model, Sampler, runtime, session


async def main(input: dict[str, Any]) -> list[float]:
    """Microseconds a token, of each round."""
    model = Model.load(runtime.models()[0])
    times = []
    for _ in range(input["rounds"]):
        with Context(model) as ctx:
            ctx.append([97])
            start = time.perf_counter()
            options = {"max_tokens": input["tokens"], "auto_flush": False}
            generator = ctx.generate(Sampler.argmax(), **options)
            generator.stop([])
            if input["chained"]:
                await generator.collect_tokens()
            else:
                async for step in generator:
                    await step.execute()
                    if input.get("first"):
                        session.send("first")
            times.append((time.perf_counter() - start) * 1e6 / input["tokens"])
    return times
