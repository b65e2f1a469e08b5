"""Tree of thought: proposes several next steps, lets the model rate each, and goes on with the
best. Branches are forks: a step that is shared is computed once, and all branches run at once."""

import asyncio
from dataclasses import dataclass

from inferlet import Context, Model, Regex, Sampler, runtime

PROPOSE = "Propose the next step, in one sentence."
RATE = "How promising are these steps, from 1 to 9? Answer with one digit."
FINISH = "Now give the result."


@dataclass
class Branch:
    ctx: Context
    rating: int = 0


async def propose(branch: Branch) -> Branch:
    """A new branch with one more step, rated by the model."""
    ctx = branch.ctx.fork()
    ctx.user(PROPOSE)
    await ctx.generate(Sampler.top_p(1.0, 0.95), max_tokens=64).collect_text()
    await ctx.seal().flush()
    with ctx.fork() as judge:
        judge.user(RATE)
        digit = Regex("[1-9]")
        rating = await judge.generate(Sampler.argmax(), constrain=digit).collect_text()
    return Branch(ctx, int(rating))


async def main(input: dict) -> str:
    model = Model.load(runtime.models()[0])
    width, keep = input.get("width", 3), input.get("keep", 1)
    root = Context(model)
    root.system(f"Solve this task step by step: {input['task']}")
    await root.flush()
    branches = [Branch(root)]
    for _ in range(input.get("depth", 2)):
        proposals = (propose(branch) for branch in branches for _ in range(width))
        grown = await asyncio.gather(*proposals)
        for branch in branches:
            branch.ctx.release()
        grown.sort(key=lambda branch: branch.rating, reverse=True)
        for branch in grown[keep:]:
            branch.ctx.release()
        branches = grown[:keep]
    best = branches[0].ctx
    best.user(FINISH)
    return await best.generate(Sampler.argmax(), max_tokens=128).collect_text()
