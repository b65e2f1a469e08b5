"""A value of a wrong type is an error that names its argument. The bindings would trap."""

import pytest

from inferlet import (
    Adapter,
    Context,
    Distribution,
    Entropy,
    Grammar,
    Logprob,
    Logprobs,
    Matcher,
    Sampler,
    chat,
    mcp,
    messaging,
    reasoning,
    runtime,
    scheduling,
    session,
    tools,
    zo,
)

GREEDY = Sampler.argmax()


@pytest.fixture
def ctx(model):
    with Context(model) as ctx:
        yield ctx.append([97])


@pytest.mark.parametrize(
    ("argument", "attempt"),
    [
        ("adapter", lambda ctx: ctx.generate(GREEDY, adapter="mine")),
        ("zo_seed", lambda ctx: ctx.generate(GREEDY, zo_seed=1.5)),
        ("seed", lambda ctx: ctx.generate(GREEDY, seed="1")),
        ("a", lambda ctx: ctx.generate(GREEDY).adapter("mine")),
        ("seed", lambda ctx: ctx.generate(GREEDY).zo_seed("7")),
        ("seed", lambda ctx: ctx.generate(GREEDY).zo_seed(1 << 63)),
        ("seed", lambda ctx: ctx.generate(GREEDY).seed(None)),
        ("n", lambda ctx: ctx.generate(GREEDY).horizon("9")),
        ("idx", lambda ctx: ctx.generate(GREEDY).probe_each_step("0", Entropy())),
        ("tokens", lambda ctx: ctx.generate(GREEDY).accept("ab")),
        ("temperature", lambda ctx: ctx.generate(GREEDY).probe_each_step(0, Distribution("1"))),
        ("k", lambda ctx: ctx.generate(GREEDY).probe_each_step(0, Distribution(1.0, 0.5))),
        ("token_id", lambda ctx: ctx.generate(GREEDY).probe_each_step(0, Logprob("a"))),
        ("token_ids", lambda ctx: ctx.generate(GREEDY).probe_each_step(0, Logprobs("ab"))),
        ("a", lambda ctx: ctx.forward().adapter(None)),
        ("seed", lambda ctx: ctx.forward().zo_seed("7")),
        ("seed", lambda ctx: ctx.forward().seed(0.5)),
        ("name", lambda ctx: ctx.answer_tool(3, "x")),
        ("name", lambda ctx: tools.Call(3)),
        ("arguments", lambda ctx: tools.Call("f", ["x"])),
        ("id", lambda ctx: tools.Call("f", "{}", 7)),
        ("text", lambda ctx: ctx.assistant_calls(None, [tools.Call("f")])),
        ("calls", lambda ctx: ctx.assistant_calls("", tools.Call("f"))),
        ("each of calls", lambda ctx: ctx.assistant_calls("", [{"name": "f"}])),
        ("call", lambda ctx: ctx.answer_call("f", "x")),
        ("schemas", lambda ctx: ctx.equip_tools('{"name": "f"}')),
        ("schemas", lambda ctx: ctx.equip_tools({"name": "f"})),
        ("tokens", lambda ctx: reasoning.Decoder(ctx.model).feed("ab")),
        ("name", lambda ctx: Adapter.create(ctx.model, 3)),
        ("name", lambda ctx: mcp.connect(3)),
        ("model", lambda ctx: Context("default")),
        ("model", lambda ctx: Context.delete("default", "name")),
        ("model", lambda ctx: chat.Decoder("default")),
        ("model", lambda ctx: chat.user("default", "hi")),
        ("model", lambda ctx: reasoning.Decoder(None)),
        ("model", lambda ctx: scheduling.balance("default")),
        ("grammar", lambda ctx: Matcher("a+", ctx.model.tokenizer())),
        ("tokenizer", lambda ctx: Matcher(Grammar.from_regex("a"), ctx.model)),
        ("program", lambda ctx: runtime.launch(3)),
        ("topic", lambda ctx: messaging.push(3, "m")),
        ("data", lambda ctx: session.send_file("text")),
        ("adapter", lambda ctx: zo.initialize("mine", 2, 2.0, 4, 0.5, 0.5)),
    ],
)
def test_the_error_names_the_argument(ctx, argument, attempt):
    with pytest.raises((TypeError, ValueError), match=rf"^{argument} must be "):
        attempt(ctx)


def test_a_matcher_is_rolled_back_by_a_whole_number(model):
    matcher = Matcher(Grammar.from_regex("ab"), model.tokenizer())
    with pytest.raises(TypeError, match="n must be "):
        matcher.rollback("1")


class Rule:
    def __init__(self, mask):
        self.mask = mask

    def step(self, accepted):
        return self.mask


@pytest.mark.parametrize("mask", [[97, 1.0], [97, "1"], [97, -1], [97, True], "ab"])
def test_a_mask_is_made_of_whole_numbers(ctx, mask):
    g = ctx.generate(GREEDY, max_tokens=1, constrain=Rule(mask), auto_flush=False)
    with pytest.raises((TypeError, ValueError), match=r"the mask of step\(\) must be "):
        g.collect_tokens()


def test_a_mask_may_be_any_iterable_and_none_restricts_nothing(ctx):
    g = ctx.generate(GREEDY, max_tokens=2, constrain=Rule((97, 1)), auto_flush=False)
    assert g.collect_tokens() == [97, 97]
    free = ctx.generate(GREEDY, max_tokens=1, constrain=Rule(None), auto_flush=False)
    assert len(free.collect_tokens()) <= 1


class Drafts:
    def draft(self):
        return "ab", []

    def accept(self, tokens): ...

    def rollback(self, n): ...

    def reset(self): ...


def test_drafts_are_whole_numbers(ctx):
    g = ctx.generate(GREEDY, max_tokens=4, speculator=Drafts(), auto_flush=False)
    with pytest.raises(TypeError, match=r"the tokens of draft\(\) must be "):
        g.collect_tokens()
