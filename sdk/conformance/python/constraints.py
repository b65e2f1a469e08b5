"""Cases about grammars, and about generations that follow them."""

import enum
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from table import GREEDY, case, load_model

from inferlet import (
    Context,
    Entropy,
    Generator,
    Grammar,
    GrammarConstraint,
    Matcher,
    Regex,
    Sampler,
    brle,
)
from inferlet import tools as native
from inferlet.errors import PieError

KINDS = {
    "regex": Grammar.from_regex,
    "ebnf": Grammar.from_ebnf,
    "json_schema": Grammar.from_json_schema,
    "json": lambda _: Grammar.json(),
}
CONSTRAINTS = {
    "regex": GrammarConstraint.from_regex,
    "ebnf": GrammarConstraint.from_ebnf,
    "json_schema": GrammarConstraint.from_json_schema,
    "json": lambda _, model: GrammarConstraint.json(model),
}


SAMPLERS = {
    "": Sampler.top_p(1000.0, 1.0),
    "top_p": Sampler.top_p(1.5, 0.9),
    "top_k": Sampler.top_k(1.5, 20),
    "min_p": Sampler.min_p(1.5, 0.02),
    "top_k_top_p": Sampler.top_k_top_p(1.5, 20, 0.9),
    "multinomial": Sampler.multinomial(1.5, 1),
    "draws": Sampler.multinomial(1.5, 3),
}


@contextmanager
def drawn(prompt: str, seed: int, sampler: str = "", **options: Any) -> Iterator[Generator]:
    """Greedy, or drawn from the seed by the sampler; without one, all allowed tokens alike."""
    if seed:
        options["seed"] = seed
    with Context(load_model()) as ctx:
        yield ctx.user(prompt).generate(SAMPLERS[sampler] if seed else GREEDY, **options)


def state_of(generator: Generator) -> list[Any]:
    ctx = generator._ctx
    return [ctx.seq_len, ctx.buffer(), generator.tokens_generated, generator.is_done]


@case
async def matcher(kind: str, source: str, tokens: list[int], n: int) -> dict:
    model = load_model()
    grammar = KINDS[kind](source)
    matcher = Matcher(grammar, model.tokenizer())
    first, forced = matcher.next_token_logit_mask(), matcher.forced_tokens()
    matcher.accept_tokens(tokens)
    after, terminated = matcher.next_token_logit_mask(), matcher.is_terminated
    fork = matcher.fork()
    matcher.rollback(n)
    back = matcher.next_token_logit_mask()
    matcher.reset()
    reset = matcher.next_token_logit_mask() == first
    return {
        "source": str(grammar),
        "first": first,
        "forced": forced,
        "after": after,
        "terminated": terminated,
        "back": back,
        "fork_same": fork.next_token_logit_mask() == after,
        "reset_same": reset,
        "refused": refused(matcher.accept_tokens, [0]),
        "too_far": refused(matcher.rollback, 1),
    }


def refused(attempt: Any, *args: Any) -> bool:
    """Whether it raises, with a text."""
    try:
        attempt(*args)
    except Exception as error:
        return str(error) != ""
    return False


@case
async def grammar_bad(kind: str, source: str) -> str:
    return str(KINDS[kind](source))


class Anything:
    """A constraint of our own that restricts nothing."""

    def step(self, accepted: list[int]) -> list[int]:
        return []


@case
async def generate_grammar(
    prompt: str,
    kind: str,
    source: str,
    allowed: list[int],
    seed: int,
    tokens: list[int],
    max_tokens: int,
) -> dict:
    model = load_model()
    options: dict[str, Any] = {"max_tokens": max_tokens, "stop": tokens}
    if allowed:
        options["logit_mask"] = brle.allow(allowed)

    def grammar() -> GrammarConstraint:
        return CONSTRAINTS[kind](source, model)

    with drawn(prompt, seed, constrain=grammar(), **options) as chained:
        chosen = await chained.collect_tokens()
        state = state_of(chained)
    with drawn(prompt, seed, constrain=grammar(), **options) as stepped:
        stepped.probe_each_step(0, Entropy())
        same_stepped = await stepped.collect_tokens() == chosen and state_of(stepped) == state
    with drawn(prompt, seed, constrain=[grammar(), Anything()], **options) as beside:
        same_beside = await beside.collect_tokens() == chosen and state_of(beside) == state
    with drawn(prompt, seed, constrain=grammar(), **options) as twice:
        same_twice = await twice.constrain(grammar()).collect_tokens() == chosen
    return {
        "text": model.tokenizer().decode(chosen),
        "state": state,
        "same_stepped": same_stepped,
        "same_beside": same_beside,
        "same_twice": same_twice,
    }


@case
async def generate_conflict(prompt: str, kind: str, source: str, allowed: list[int], n: int) -> str:
    constraints: list[Any] = [CONSTRAINTS[kind](source, load_model())]
    if n:
        constraints.append(Anything())
    mask = brle.allow(allowed)
    with drawn(prompt, 0, max_tokens=40, constrain=constraints, logit_mask=mask) as generator:
        return await generator.collect_text()


@case
async def collect_json(prompt: str, value: Any, seed: int, max_tokens: int) -> dict:
    with drawn(prompt, seed, max_tokens=max_tokens) as generator:
        found = await generator.collect_json(schema=value)
        return {"value": found, "done": generator.is_done}


@case
async def collect_thinking(
    prompt: str, source: str, value: Any, seed: int, max_tokens: int
) -> dict:
    with drawn(prompt, seed, max_tokens=max_tokens, constrain=Regex(source)) as generator:
        found = await generator.think_first().collect_json(schema=value)
        return {"value": found, "tokens": generator.tokens_generated}


@case
async def native_bad(tools: list[str]) -> dict:
    model = load_model()
    found: list[Any] = []
    for native_form in (native.native_grammar, native.native_matcher):
        try:
            found.append(native_form(model, tools) is not None)
        except PieError as error:
            found.append(str(error))
    grammar, matcher = found
    if isinstance(grammar, str):
        raise PieError(grammar if grammar == matcher else "the grammar and the matcher differ")
    return {"grammar": grammar, "matcher": matcher}


@case
async def native_call(prompt: str, tools: list[str], seed: int, max_tokens: int) -> dict:
    model = load_model()
    matcher = native.native_matcher(model, tools)
    if matcher is None:
        return {"has": False}
    grammar = native.native_grammar(model, tools)
    options = {"constrain": GrammarConstraint(matcher), "max_tokens": max_tokens}
    with drawn(prompt, seed, **options) as generator:
        tokens = await generator.collect_tokens()
    event = native.Decoder(model).feed(tokens)
    assert isinstance(event, native.Event.Call)
    return {"has": grammar is not None, "name": event.name, "args": json.loads(event.args)}


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Pie:
    good: bool
    size: Size
    slices: list[int]
    price: int | None = None


@case
async def collect_typed(prompt: str, seed: int, max_tokens: int) -> dict:
    with drawn(prompt, seed, max_tokens=max_tokens) as generator:
        pie = await generator.collect_json(schema=Pie)
        return {"typed": isinstance(pie, Pie) and isinstance(pie.size, Size)}
