"""Prompt lookup: drafts are copied from the prompt. The answer must equal the greedy one."""

import time

from inferlet import Context, Model, Sampler, runtime
from inferlet.spec import Speculator


class PromptLookup(Speculator):
    def __init__(self, tokens: list[int], ngram: int = 2, width: int = 4):
        self.base = list(tokens)
        self.history = list(tokens)
        self.ngram, self.width = ngram, width
        self.drafted = self.accepted = self.rolled_back = self.resets = 0
        self.index: dict[tuple[int, ...], int] = {}
        for i in range(len(tokens) - ngram):
            self.index.setdefault(tuple(tokens[i : i + ngram]), i + ngram)

    def draft(self) -> tuple[list[int], list[int]]:
        start = self.index.get(tuple(self.history[-self.ngram :]))
        if start is None:
            return [], []
        tokens = self.history[start : start + self.width]
        first = len(self.history)
        self.drafted += len(tokens)
        return tokens, list(range(first, first + len(tokens)))

    def accept(self, tokens: list[int]) -> None:
        self.accepted += len(tokens)
        for t in tokens:
            self.history.append(t)
            n = len(self.history)
            if n > self.ngram:
                self.index.setdefault(tuple(self.history[n - self.ngram - 1 : n - 1]), n - 1)

    def rollback(self, n: int) -> None:
        self.rolled_back += n

    def reset(self) -> None:
        self.history = list(self.base)
        self.resets += 1


class Duck:
    """Any class with the four methods satisfies the protocol. Its drafts are junk."""

    def __init__(self, position: int):
        self.position = position
        self.accepted: list[int] = []
        self.rolled = 0

    def draft(self):
        p = self.position + len(self.accepted)
        return [1, 2, 3], [p, p + 1, p + 2]

    def accept(self, tokens):
        self.accepted.extend(tokens)

    def rollback(self, n):
        self.rolled += n

    def reset(self):
        self.accepted.clear()


async def main(input: dict) -> dict:
    n = input.get("max_tokens", 24)
    model = Model.load(runtime.models()[0])
    prompt = "Repeat after me: the quick brown fox jumps over the lazy dog. The quick brown fox"

    def fresh() -> Context:
        ctx = Context(model)
        ctx.system("Repeat what the user says.").user(prompt).cue()
        return ctx

    async def run(**kwargs):
        ctx = fresh()
        t = time.perf_counter()
        g = ctx.generate(Sampler.argmax(), max_tokens=n, **kwargs)
        tokens = await g.collect_tokens()
        assert g.is_done
        assert g.tokens_generated == len(tokens) <= n
        ctx.release()
        return tokens, time.perf_counter() - t

    tokens_of_prompt = fresh().buffer()
    spec = PromptLookup(tokens_of_prompt)
    duck = Duck(len(tokens_of_prompt))
    plain, _t0 = await run(auto_flush=False, stop=[])
    looked, _t1 = await run(auto_flush=False, speculator=spec)
    junk, _ = await run(auto_flush=False, speculator=duck)
    ngram, _ = await run(auto_flush=False, system_speculation=True)
    assert plain == looked, (plain, looked)
    assert plain == junk, (plain, junk)
    assert plain == ngram, (plain, ngram)
    assert duck.rolled > 0

    try:
        fresh().generate(Sampler.argmax(), speculator=spec, system_speculation=True)
    except (ValueError, TypeError) as exc:
        refused = str(exc)
    else:
        raise AssertionError("speculator and system_speculation are mutually exclusive")
    return {
        "tokens": len(plain),
        "drafted": spec.drafted,
        "accepted": spec.accepted,
        "refused": refused,
    }
