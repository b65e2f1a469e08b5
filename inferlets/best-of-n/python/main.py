"""Draws several answers to one prompt and returns the likeliest. The prompt is computed once.
One pass over the tokens of an answer reads how likely each of them was."""

import asyncio
from dataclasses import dataclass

from inferlet import Context, Logprob, Model, Sampler, chat, runtime


@dataclass
class Answer:
    text: str
    score: float  # the mean log-probability of its tokens


async def draw(model: Model, prefix: Context, max_tokens: int) -> Answer:
    with prefix.fork() as ctx:
        generator = ctx.generate(Sampler.top_p(1.0, 0.95), max_tokens=max_tokens)
        tokens = await generator.collect_tokens()
    cue = chat.cue(model)
    with prefix.fork() as judge:
        forward = judge.forward().input(cue).input(tokens)
        # The last row of the cue predicts the first token.
        rows = range(len(cue) - 1, len(cue) - 1 + len(tokens))
        probes = [
            forward.probe(row, Logprob(token)) for row, token in zip(rows, tokens, strict=True)
        ]
        out = await forward.execute()
    total = sum(out.logprobs(probe)[0] for probe in probes)
    return Answer(model.tokenizer().decode(tokens), total / max(len(tokens), 1))


async def main(input: dict) -> Answer:
    model = Model.load(runtime.models()[0])
    n, max_tokens = input.get("n", 8), input.get("max_tokens", 64)
    if n < 1:
        raise ValueError("n must be at least 1")
    with Context(model) as prefix:
        prefix.user(input["prompt"])
        await prefix.flush()
        answers = await asyncio.gather(*(draw(model, prefix, max_tokens) for _ in range(n)))
        return max(answers, key=lambda answer: answer.score)
