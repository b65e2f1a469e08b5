"""Beam search with raw forward passes, copy-on-write forks and Distribution probes."""

import asyncio
import heapq
import math
from dataclasses import dataclass
from typing import NamedTuple

from inferlet import (
    Context,
    Distribution,
    Entropy,
    Logprob,
    Logprobs,
    Model,
    Sampler,
    chat,
    runtime,
)


class Candidate(NamedTuple):
    score: float
    parent: int
    token: int
    prob: float


@dataclass(slots=True)
class Beam:
    ctx: Context
    tokens: list[int]
    logprob: float = 0.0
    done: bool = False

    def normalised(self, alpha: float = 0.7) -> float:
        return self.logprob / max(1, len(self.tokens)) ** alpha


async def expand(beam: Beam, last: list[int], width: int) -> tuple[list[int], list[float], float]:
    """One pass: the beam's last token goes in, the top-k of the next comes out."""
    fwd = beam.ctx.forward()
    assert fwd.start_position() == beam.ctx.seq_len
    fwd.input(last)
    row = len(last) - 1
    dist = fwd.probe(row, Distribution(1.0, width))
    ent = fwd.probe(row, Entropy())
    out = await fwd.execute()
    ids, probs = out.distribution(dist)
    assert out.tokens == [], "a raw pass accepts nothing"
    assert out.auto_sampler is None
    return ids, probs, out.entropy(ent)


async def beam_search(model: Model, root: Context, width: int, steps: int):
    stop = set(chat.stop_tokens(model))
    root.cue()
    pending = root.buffer()
    assert pending, "the cue is still buffered"
    # keep the last token back, so that the first expansion has an input
    first = await root_pass(root, pending, width)
    beams = []
    for tok, p in zip(*first, strict=False):
        beams.append(Beam(root.fork(), [tok], math.log(p), tok in stop))
    beams = beams[:width]
    for _ in range(steps - 1):
        live = [(i, b) for i, b in enumerate(beams) if not b.done]
        if not live:
            break
        results = await asyncio.gather(*(expand(b, [b.tokens[-1]], width) for _, b in live))
        pool: list[Candidate] = []
        for (i, b), (ids, probs, _) in zip(live, results, strict=False):
            pool += [
                Candidate(b.logprob + math.log(max(p, 1e-30)), i, t, p)
                for t, p in zip(ids, probs, strict=False)
            ]
        finished = [b for b in beams if b.done]
        best = heapq.nlargest(width - len(finished), pool)
        new = []
        for c in best:
            parent = beams[c.parent]
            new.append(Beam(parent.ctx.fork(), [*parent.tokens, c.token], c.score, c.token in stop))
        for _, b in live:
            b.ctx.release()
        beams = finished + new
    return sorted(beams, key=Beam.normalised, reverse=True)


async def root_pass(ctx: Context, pending: list[int], width: int) -> tuple[list[int], list[float]]:
    # The buffer belongs to the SDK; a flush computes all of it, and then we ask once more.
    await ctx.flush()
    assert ctx.buffer() == []
    assert ctx.seq_len >= len(pending)
    probe = ctx.fork()
    g = probe.generate(Sampler.argmax(), max_tokens=1, auto_flush=False)
    h = g.probe_each_step(0, Distribution(temperature=1.0, k=width))
    ids: list[int] = []
    probs: list[float] = []
    async for step in g:
        out = await step.execute()
        got = out.distribution(h)
        assert got is not None
        ids, probs = got
        assert out.token(out.auto_sampler) == ids[0], (out.token(out.auto_sampler), ids)
    probe.release()
    return list(ids), list(probs)


async def score(model: Model, prefix: Context, text: str) -> float:
    """Sum of log p(token | before), with one probe for each token of the continuation."""
    tokens = model.tokenizer().encode(text)
    ctx = prefix.fork()
    fwd = ctx.forward()
    fwd.input(tokens)
    handles = [fwd.probe(i, Logprob(tokens[i + 1])) for i in range(len(tokens) - 1)]
    many = fwd.probe(len(tokens) - 1, Logprobs([0, 1, 2]))
    out = await fwd.execute()
    assert len(out.logprobs(many)) == 3
    total = 0.0
    for h in handles:
        (lp,) = out.logprobs(h)
        assert lp <= 0.0
        total += lp
    ctx.release()
    return total


async def main(input: dict) -> dict:
    width = input.get("width", 3)
    steps = input.get("steps", 6)
    model = Model.load(runtime.models()[0])
    tok = model.tokenizer()
    ctx = Context(model).system("Answer in one sentence.").user(input.get("prompt", "What is pie?"))
    beams = await beam_search(model, ctx, width, steps)
    scores = [b.normalised() for b in beams]
    assert scores == sorted(scores, reverse=True)
    total = await score(model, ctx, "Pie is a dish.")
    result = {
        "best": tok.decode(beams[0].tokens),
        "n": len(beams),
        "scores": scores,
        "score": total,
    }
    for b in beams:
        b.ctx.release()
    return result
