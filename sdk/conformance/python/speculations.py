"""Cases about speculation: the same tokens in fewer passes."""

from typing import Any

from constraints import CONSTRAINTS, drawn, state_of
from table import case, load_model

from inferlet import brle


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
) -> dict:
    options: dict[str, Any] = {"max_tokens": max_tokens, "stop": tokens}
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
async def system_speculation(prompt: str, seed: int, max_tokens: int) -> dict:
    options = {"max_tokens": max_tokens}
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
