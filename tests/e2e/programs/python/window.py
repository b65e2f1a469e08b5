"""Raw passes with masks: every token sees the first `sink` tokens and the last `window`."""

import asyncio

from inferlet import Context, Model, Sampler, chat, runtime


def window_row(position: int, sink: int, window: int) -> list[int]:
    """BRLE of one attention row for the token at `position` (which sees positions 0..position)."""
    total = position + 1
    if total <= sink + window:
        return [0, total]
    return [0, sink, total - sink - window, window]


async def prefill(ctx: Context, tokens: list[int], sink: int, window: int, chunk: int = 7) -> int:
    """Computes the prompt by chunks and returns the first new token."""
    token = None
    for i in range(0, len(tokens), chunk):
        part = tokens[i : i + chunk]
        fwd = ctx.forward()
        start = fwd.start_position()
        assert start == ctx.seq_len == i
        fwd.input(part)
        fwd.attention_mask([window_row(start + j, sink, window) for j in range(len(part))])
        h = fwd.sample([len(part) - 1], Sampler.argmax())
        out = await fwd.execute()
        token = out.token(h)
    assert token is not None
    return token


async def decode(
    ctx: Context, token: int, n: int, stop: set[int], sink: int, window: int
) -> list[int]:
    tokens = [token]
    while len(tokens) < n and tokens[-1] not in stop:
        fwd = ctx.forward().input([tokens[-1]])
        fwd.attention_mask([window_row(fwd.start_position(), sink, window)])
        h = fwd.sample([0], Sampler.argmax())
        tokens.append((await fwd.execute()).token(h))
    return tokens


async def main(input: dict) -> dict:
    model = Model.load(runtime.models()[0])
    tok = model.tokenizer()
    stop = set(chat.stop_tokens(model))
    n = input.get("n", 12)
    prompt = (
        chat.system(model, "You are helpful.")
        + chat.user(model, "Count to ten, please.")
        + chat.cue(model)
    )

    # a window that is wide enough changes nothing
    wide = Context(model)
    wide_tokens = await decode(wide, await prefill(wide, prompt, 4, 10_000), n, stop, 4, 10_000)
    full = Context(model)
    g = full.append(prompt).generate(Sampler.argmax(), max_tokens=n, auto_flush=False)
    full_tokens = await g.collect_tokens()
    cut = [t for t in wide_tokens if t not in stop]
    assert cut == full_tokens, (cut, full_tokens)

    # a narrow one runs, and a one-token prompt is the same however it is cut
    narrow = Context(model)
    narrow_tokens = await decode(narrow, await prefill(narrow, prompt, 4, 16), n, stop, 4, 16)

    # positions by hand: the same as derived ones
    a, b = Context(model), Context(model)
    fa = a.forward().input(prompt)
    fb = b.forward().input_at(prompt, list(range(len(prompt))))
    ha, hb = (
        fa.sample([len(prompt) - 1], Sampler.argmax()),
        fb.sample([len(prompt) - 1], Sampler.argmax()),
    )
    oa, ob = await asyncio.gather(fa.execute(), fb.execute())
    assert oa.token(ha) == ob.token(hb)
    # logit mask of one pass
    fm = Context(model).forward().input(prompt).mask([5, 1])
    hm = fm.sample([len(prompt) - 1], Sampler.top_k(1.0, 10))
    assert (await fm.execute()).token(hm) == 5
    return {
        "full": tok.decode(full_tokens),
        "narrow": tok.decode(narrow_tokens),
        "page": full.page_size,
    }
