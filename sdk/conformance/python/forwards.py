"""Cases about single passes."""

from table import GREEDY, argmax, case, context_with, encode, floats, load_model

from inferlet import (
    Context,
    Distribution,
    Embedding,
    Entropy,
    Logits,
    Logprob,
    Logprobs,
    Sampler,
    brle,
)


@case
async def forward(text: str) -> dict:
    model = load_model()
    tokens = encode(model, text)
    last = len(tokens) - 1
    with Context(model) as ctx:
        fwd = ctx.forward().input(tokens)
        sampled = fwd.sample([last], GREEDY)
        logits = fwd.probe(last, Logits())
        distribution = fwd.probe(last, Distribution(1.0, 5))
        logprob = fwd.probe(last, Logprob(97))
        logprobs = fwd.probe(last, Logprobs([97, 98]))
        entropy = fwd.probe(last, Entropy())
        out = await fwd.execute()
    ids, probs = out.distribution(distribution)
    return {
        "token": out.token(sampled),
        "argmax": argmax(out.logits(logits)),
        "vocab": len(out.logits(logits)) // 4,
        "ids": ids,
        "probs": probs,
        "logprob": out.logprobs(logprob)[0],
        "logprobs": out.logprobs(logprobs),
        "entropy": out.entropy(entropy),
        "mismatch": out.token(entropy) is None,
    }


@case
async def embedding(text: str) -> dict:
    model = load_model()
    tokens = encode(model, text)
    last = len(tokens) - 1
    with Context(model) as ctx:
        fwd = ctx.forward().input(tokens)
        sampled = fwd.sample([last], Sampler.embedding())
        first = fwd.probe(0, Embedding())
        probed = fwd.probe(last, Embedding())
        out = await fwd.execute()
    numbers = floats(out.embedding(sampled))
    steps = 0
    with Context(model) as ctx:
        g = ctx.user(text).generate(GREEDY, max_tokens=3)
        handle = g.probe_each_step(0, Embedding())
        async for step in g:
            steps += len((await step.execute()).embedding(handle)) == 4 * len(numbers)
        try:
            ctx.generate(Sampler.embedding())
            refused = False
        except ValueError:
            refused = True
    return {
        "size": len(numbers),
        "values": list(numbers[:4]),
        "same": out.embedding(sampled) == out.embedding(probed),
        "differs": out.embedding(first) != out.embedding(probed),
        "no_token": out.token(sampled) is None,
        "steps": steps,
        "refused": refused,
    }


@case
async def forward_rows(text: str) -> list[int]:
    model = load_model()
    with Context(model) as ctx:
        fwd = ctx.forward().input(encode(model, text))
        handle = fwd.sample([0, 1, 2], GREEDY)
        return (await fwd.execute()).tokens_at(handle)


@case
async def forward_empty() -> None:
    with Context(load_model()) as ctx:
        await ctx.forward().execute()


@case
async def forward_mask(text: str, token: int) -> int | None:
    model = load_model()
    tokens = encode(model, text)
    with Context(model) as ctx:
        fwd = ctx.forward().input(tokens).mask(brle.allow([token]))
        handle = fwd.sample([len(tokens) - 1], GREEDY)
        return (await fwd.execute()).token(handle)


@case
async def attention_mask(text: str) -> dict:
    model = load_model()
    tokens = encode(model, text)
    last = len(tokens) - 1

    async def read(masks: list[list[int]] | None) -> list[float]:
        with Context(model) as ctx:
            fwd = ctx.forward().input(tokens)
            if masks is not None:
                fwd.attention_mask(masks)
            logits, entropy = fwd.probe(last, Logits()), fwd.probe(last, Entropy())
            out = await fwd.execute()
            return [*floats(out.logits(logits)), out.entropy(entropy)]

    rows = [[0, row + 1] for row in range(len(tokens))]
    plain = await read(None)
    hidden = await read([*rows[:last], [last, 1]])
    return {"hidden_differs": hidden != plain, "all_true_same": await read(rows) == plain}


@case
async def input_at(text: str) -> dict:
    with await context_with(load_model(), text) as ctx:
        before = ctx.seq_len
        fwd = ctx.forward().input_at([97], [before])
        fwd.sample([0], GREEDY)
        await fwd.execute()
        return {"advanced": ctx.seq_len - before}


@case
async def draws(text: str, seed: int) -> dict:
    model = load_model()
    tokens = encode(model, text)
    with Context(model) as ctx:
        fwd = ctx.forward().input(tokens).seed(seed)
        handle = fwd.sample([len(tokens) - 1], Sampler.multinomial(1.0, 4))
        out = await fwd.execute()
    drawn = out.tokens_at(handle)
    return {"count": len(drawn), "first": out.token(handle) == drawn[0]}
