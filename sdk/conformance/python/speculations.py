"""Cases about speculation: the same tokens in fewer passes."""

from typing import Any

from constraints import CONSTRAINTS, drawn, state_of
from table import GREEDY, case, load_model

from inferlet import Context, Entropy, Logprob, brle


class Drafter:
    """Drafts what is known to come, with a mistake at every third place, and notes its calls."""

    def __init__(self, truth: list[int], n: int) -> None:
        self.truth, self.n, self.at = truth, n, 0
        self.calls: list[list[Any]] = []

    def draft(self) -> tuple[list[int], list[int]]:
        ahead = self.truth[self.at : self.at + self.n]
        self.calls.append(["draft", len(ahead)])
        wrong = [token if (self.at + i) % 3 != 2 else token ^ 1 for i, token in enumerate(ahead)]
        return wrong, []

    def accept(self, tokens: list[int]) -> None:
        self.at += len(tokens)
        self.calls.append(["accept", len(tokens)])

    def rollback(self, n: int) -> None:
        self.calls.append(["rollback", n])

    def reset(self) -> None:
        self.calls.append(["reset"])


@case
async def speculate(
    prompt: str,
    kind: str,
    source: str,
    allowed: list[int],
    seed: int,
    tokens: list[int],
    n: int,
    max_tokens: int,
    sampler: str = "",
) -> dict:
    options: dict[str, Any] = {"max_tokens": max_tokens, "stop": tokens, "sampler": sampler}
    if allowed:
        options["logit_mask"] = brle.allow(allowed)

    def constrained() -> dict[str, Any]:
        return {"constrain": CONSTRAINTS[kind](source, load_model())} if kind else {}

    with drawn(prompt, seed, **options, **constrained()) as plain:
        truth = await plain.collect_tokens()
        state = state_of(plain)
    drafter = Drafter(truth, n)
    with drawn(prompt, seed, speculator=drafter, **options, **constrained()) as drafted:
        same = await drafted.collect_tokens() == truth
        same_state = state_of(drafted) == state
    return {"tokens": truth, "same": same, "same_state": same_state, "calls": drafter.calls}


@case
async def speculate_probed(
    prompt: str,
    kind: str,
    source: str,
    allowed: list[int],
    seed: int,
    tokens: list[int],
    n: int,
    max_tokens: int,
    sampler: str = "",
) -> dict:
    options: dict[str, Any] = {"max_tokens": max_tokens, "stop": tokens, "sampler": sampler}

    async def run(**more: Any) -> tuple[list[int], list[Any], int]:
        chosen: list[int] = []
        read: list[Any] = []
        steps = 0
        with drawn(prompt, seed, **options, **more) as generator:
            each = generator.probe_each_step(0, Entropy())
            async for step in generator:
                own = step.probe(0, Logprob(97))
                out = await step.execute()
                steps += 1
                chosen += out.tokens
                for i in range(len(out.tokens)):
                    read.append([out.entropy(each.at(i)), out.logprobs(own.at(i))[0]])
        return chosen, read, steps

    truth, read, _ = await run()
    drafted, read_too, steps = await run(speculator=Drafter(truth, n))
    return {
        "tokens": truth,
        "probes": read,
        "same": drafted == truth,
        "same_probes": read_too == read,
        "steps": steps,
    }


class Placed:
    """Drafts what is known to come, at positions that are `shift` too high, `missing` too few."""

    def __init__(self, truth: list[int], start: int, n: int, shift: int | None, missing: int = 0):
        self.truth, self.start, self.n, self.shift, self.missing = truth, start, n, shift, missing
        self.at = self.drafts = 0

    def draft(self) -> tuple[list[int], list[int]]:
        ahead = self.truth[self.at : self.at + self.n]
        self.drafts += 1
        if self.shift is None:
            return ahead, []
        first = self.start + self.at + self.shift
        return ahead, list(range(first, first + len(ahead) - self.missing))

    def accept(self, tokens: list[int]) -> None:
        self.at += len(tokens)

    def rollback(self, n: int) -> None:
        pass

    def reset(self) -> None:
        pass


@case
async def draft_positions(prompt: str, n: int, max_tokens: int) -> dict:
    model = load_model()

    async def run(speculator: Any) -> tuple[list[int], int]:
        with Context(model) as ctx:
            ctx.user(prompt).cue()
            options = {"max_tokens": max_tokens, "speculator": speculator, "auto_flush": False}
            tokens = await ctx.generate(GREEDY, **options).collect_tokens()
            return tokens, speculator.drafts if speculator else 0

    with Context(model) as ctx:
        start = len(ctx.user(prompt).cue().buffer())
    truth, _ = await run(None)
    none = await run(Placed(truth, start, n, None))
    right = await run(Placed(truth, start, n, 0))
    wrong = await run(Placed(truth, start, n, 7))
    try:
        await run(Placed(truth, start, n, 0, missing=1))
        mismatch = False
    except Exception:
        mismatch = True
    return {
        "same": none[0] == right[0] == truth,
        "same_calls": none[1] == right[1],
        "wrong_differs": wrong != right,
        "wrong": wrong[0],
        "mismatch": mismatch,
    }


@case
async def system_speculation(prompt: str, seed: int, max_tokens: int, sampler: str = "") -> dict:
    options: dict[str, Any] = {"max_tokens": max_tokens, "sampler": sampler}
    with drawn(prompt, seed, **options) as plain:
        truth = await plain.collect_tokens()
        state = state_of(plain)
    with drawn(prompt, seed, system_speculation=True, **options) as chained:
        same = await chained.collect_tokens() == truth and state_of(chained) == state
    with drawn(prompt, seed, system_speculation=True, **options) as stepped:
        tokens: list[int] = []
        async for step in stepped:
            tokens += (await step.execute()).tokens
        same_stepped = tokens == truth and state_of(stepped) == state
    return {"same": same, "same_stepped": same_stepped}
