"""Classifier-free guidance: the logits under a negative prompt are subtracted from the others."""

import array
import asyncio
import math
import struct
from collections.abc import Sequence

from inferlet import Context, Distribution, Entropy, Logits, Logprob, Model, Sampler, chat, runtime


def to_floats(raw: bytes) -> array.array:
    values = array.array("f")
    values.frombytes(raw)
    assert len(values) == len(raw) // 4
    assert values[1] == struct.unpack_from("=f", raw, 4)[0]
    return values


def log_softmax(xs: Sequence[float]) -> list[float]:
    top = max(xs)
    z = top + math.log(sum(math.exp(x - top) for x in xs))
    return [x - z for x in xs]


async def guided(model: Model, positive: str, negative: str, scale: float, n: int) -> list[int]:
    stop = set(chat.stop_tokens(model))
    pos = Context(model).user(positive)
    neg = Context(model).user(negative)
    gp = pos.generate(Sampler.argmax(), max_tokens=n)
    gn = neg.generate(Sampler.argmax(), max_tokens=n)
    tokens: list[int] = []
    ip, in_ = aiter(gp), aiter(gn)
    while True:
        try:
            sp, sn = await anext(ip), await anext(in_)
        except StopAsyncIteration:
            break
        sp.clear_sampler()
        sn.clear_sampler()
        hp, hn = sp.probe(0, Logits()), sn.probe(0, Logits())
        ent = sp.probe(0, Entropy())
        op, on = await asyncio.gather(sp.execute(), sn.execute())
        assert op.auto_sampler is None and op.tokens == []
        assert op.entropy(ent) >= 0
        a, b = log_softmax(to_floats(op.logits(hp))), log_softmax(to_floats(on.logits(hn)))
        mixed = [y + scale * (x - y) for x, y in zip(a, b, strict=False)]
        chosen = max(range(len(mixed)), key=mixed.__getitem__)
        kept = gp.accept([chosen])
        gn.accept([chosen])
        tokens += kept
        if chosen in stop:
            assert kept == []
            assert gp.is_done
            break
    assert gp.tokens_generated == len(tokens)
    pos.release()
    neg.release()
    return tokens


async def main(input: dict) -> dict:
    n = input.get("n", 8)
    model = Model.load(runtime.models()[0])
    tok = model.tokenizer()
    prompt = "Say hello."
    # scale 1 with the same prompt twice is plain greedy decoding
    plain = (
        await Context(model).user(prompt).generate(Sampler.argmax(), max_tokens=n).collect_tokens()
    )
    same = await guided(model, prompt, prompt, 1.0, n)
    assert same == plain, (same, plain)
    other = await guided(model, prompt, "Say goodbye.", 1.5, n)

    # temperature of a distribution, against the logits
    ctx = Context(model)
    tokens = tok.encode("The answer is")
    fwd = ctx.forward()
    fwd.input(tokens)
    last = len(tokens) - 1
    hl, hd = fwd.probe(last, Logits()), fwd.probe(last, Distribution(0.5, 0))
    h0 = fwd.probe(0, Logprob(tokens[1]))
    hs = fwd.sample([last], Sampler.argmax())
    hm = fwd.sample([0, last], Sampler.argmax())
    out = await fwd.execute()
    logits = to_floats(out.logits(hl))
    ids, probs = out.distribution(hd)
    assert len(ids) == len(logits), "k=0 is the whole vocabulary"
    ref = log_softmax([x / 0.5 for x in logits])
    worst = max(abs(math.exp(ref[i]) - p) for i, p in zip(ids, probs, strict=False))
    assert worst < 1e-3, worst
    best = max(range(len(logits)), key=logits.__getitem__)
    assert out.token(hs) == best == out.tokens_at(hm)[1]
    assert out.logprobs(h0)[0] < 0
    # a sampler's slot through a probe's handle, and the reverse, is None
    assert out.logits(hs) is None and out.token(hl) is None
    assert ctx.seq_len == len(tokens)
    return {"plain": tok.decode(plain), "guided": tok.decode(other)}
