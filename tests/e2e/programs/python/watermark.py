"""A green-list watermark, as a Constraint (hard) and as a boost on Distribution probes (soft)."""

import hashlib
import itertools
import math
import random

from inferlet import Context, Distribution, Model, Sampler, chat, runtime, session


def green(prev: int, vocab: int, gamma: float, key: bytes) -> set[int]:
    seed = hashlib.blake2b(prev.to_bytes(4, "little"), key=key, digest_size=8).digest()
    rng = random.Random(int.from_bytes(seed, "little"))
    return set(rng.sample(range(vocab), int(vocab * gamma)))


def brle(allowed: set[int], vocab: int) -> list[int]:
    runs, cur, n = [], False, 0
    for i in range(vocab):
        if (i in allowed) == cur:
            n += 1
        else:
            runs.append(n)
            cur, n = not cur, 1
    return [*runs, n]


class HardWatermark:
    def __init__(self, vocab: int, gamma: float, key: bytes, always: set[int]):
        self.vocab, self.gamma, self.key, self.always = vocab, gamma, key, always
        self.prev = 0

    def step(self, accepted: list[int]) -> list[int]:
        if accepted:
            self.prev = accepted[-1]
        return brle(green(self.prev, self.vocab, self.gamma, self.key) | self.always, self.vocab)


def z_score(tokens: list[int], vocab: int, gamma: float, key: bytes) -> float:
    hits = sum(t in green(p, vocab, gamma, key) for p, t in itertools.pairwise(tokens))
    n = len(tokens) - 1
    return (hits - gamma * n) / math.sqrt(n * gamma * (1 - gamma)) if n > 0 else 0.0


async def soft(
    model: Model, prompt: str, vocab: int, gamma: float, key: bytes, delta: float, n: int
) -> list[int]:
    ctx = Context(model)
    ctx.user(prompt)
    gen = ctx.generate(Sampler.argmax(), max_tokens=n)
    prev = 0
    result: list[int] = []
    rng = random.Random(7)
    async for step in gen:
        step.clear_sampler()
        h = step.probe(0, Distribution(temperature=1.0, k=32))
        out = await step.execute()
        ids, probs = out.distribution(h)
        g = green(prev, vocab, gamma, key)
        weights = [p * math.exp(delta) if t in g else p for t, p in zip(ids, probs, strict=False)]
        choice = rng.choices(ids, weights)[0]
        result += gen.accept([choice])
        prev = choice
    return result


async def main(input: dict) -> dict:
    model = Model.load(runtime.models()[0])
    tok = model.tokenizer()
    vocab = len(tok.vocabs()[0])
    key, gamma, n = b"secret", 0.5, input.get("n", 16)
    stop = set(chat.stop_tokens(model))
    mark = HardWatermark(vocab, gamma, key, stop)
    hard = (
        await Context(model)
        .user("Tell me a story.")
        .generate(Sampler.top_p(1.0, 0.95), max_tokens=n, constrain=mark)
        .collect_tokens()
    )
    for p, t in itertools.pairwise(hard):
        assert t in green(p, vocab, gamma, key), (p, t)
    softly = await soft(model, "Tell me a story.", vocab, gamma, key, 4.0, n)
    plain = (
        await Context(model)
        .user("Tell me a story.")
        .generate(Sampler.top_p(1.0, 0.95), max_tokens=n)
        .collect_tokens()
    )
    z = {
        name: z_score(t, vocab, gamma, key)
        for name, t in (("hard", hard), ("soft", softly), ("plain", plain))
    }
    session.send(z)
    return {"z": z, "text": tok.decode(softly)}
