"""A value of a wrong type is an error that names its argument. The bindings would trap."""

import pytest

from inferlet import (
    Adapter,
    Context,
    Distribution,
    Ebnf,
    Entropy,
    Grammar,
    GrammarConstraint,
    JsonSchema,
    Logprob,
    Logprobs,
    Matcher,
    Regex,
    Sampler,
    brle,
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
        ("value", lambda ctx: ctx.model.template_option("enable_thinking", [])),
        ("name", lambda ctx: ctx.model.template_option(1, True)),
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
        ("sampler", lambda ctx: ctx.generate("greedy")),
        ("constrain", lambda ctx: ctx.generate(GREEDY, constrain="[0-9]+")),
        ("constrain", lambda ctx: ctx.generate(GREEDY, constrain=[Regex("a"), {"type": "string"}])),
        ("c", lambda ctx: ctx.generate(GREEDY).constrain(7)),
        ("stop", lambda ctx: ctx.generate(GREEDY, stop="ab")),
        ("stop", lambda ctx: ctx.generate(GREEDY, stop=7)),
        ("logit_mask", lambda ctx: ctx.generate(GREEDY, logit_mask="ab")),
        ("speculator", lambda ctx: ctx.generate(GREEDY, speculator=object())),
        ("probe", lambda ctx: ctx.generate(GREEDY).probe_each_step(0, "entropy")),
        ("probe", lambda ctx: ctx.generate(GREEDY).probe_each_step(0, Entropy)),
        ("parse", lambda ctx: ctx.generate(GREEDY).collect_json(parse="int")),
        ("probe", lambda ctx: ctx.forward().probe(0, None)),
        ("sampler", lambda ctx: ctx.forward().sample([0], "greedy")),
        ("masks", lambda ctx: ctx.forward().attention_mask(7)),
        ("each of masks", lambda ctx: ctx.forward().attention_mask([1, 2])),
        ("s", lambda ctx: Grammar.from_json_schema(["string"])),
        ("s", lambda ctx: GrammarConstraint.from_json_schema(7, ctx.model)),
        ("model", lambda ctx: GrammarConstraint.from_json_schema("{}", "default")),
        ("model", lambda ctx: GrammarConstraint.json("default")),
        ("model", lambda ctx: GrammarConstraint.from_regex("a", None)),
        ("g", lambda ctx: GrammarConstraint.from_grammar("a", ctx.model)),
        ("matcher", lambda ctx: GrammarConstraint(Grammar.from_regex("a"))),
        ("schema", lambda ctx: JsonSchema(7)),
        ("schema", lambda ctx: JsonSchema({"enum": object()})),
        ("pattern", lambda ctx: Regex(7)),
        ("source", lambda ctx: Ebnf(None)),
        ("temperature", lambda ctx: Sampler.top_p(-0.1, 0.9)),
        ("temperature", lambda ctx: Sampler.multinomial(float("nan"))),
        ("p", lambda ctx: Sampler.top_p(0.6, 1.5)),
        ("p", lambda ctx: Sampler.min_p(0.6, "0.1")),
        ("k", lambda ctx: Sampler.top_k(0.6, -1)),
        ("seed", lambda ctx: Sampler.top_p(seed="7")),
        ("name", lambda ctx: Context(ctx.model, 7)),
        ("name", lambda ctx: ctx.fork(7)),
        ("ctx", lambda ctx: scheduling.rent(ctx.model)),
        ("ctx", lambda ctx: scheduling.latency(None)),
        ("fwd", lambda ctx: zo.adapter_seed(ctx, 7)),
        ("message", lambda ctx: session.send(object())),
        ("message", lambda ctx: messaging.push("t", b"bytes")),
        ("message", lambda ctx: messaging.broadcast("t", object())),
        ("input", lambda ctx: runtime.launch("p", object())),
        ("value", lambda ctx: ctx.answer_tool("f", object())),
        ("schemas", lambda ctx: ctx.equip_tools(7)),
        ("each of schemas", lambda ctx: ctx.equip_tools([7])),
        ("calls", lambda ctx: ctx.assistant_calls("", 7)),
        ("ids", lambda ctx: brle.allow("ab")),
        ("mask", lambda ctx: brle.ids(7)),
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


def test_what_is_no_handle_reads_nothing(ctx):
    forward = ctx.forward().input([97])
    handle = forward.sample([0], GREEDY)
    out = forward.execute()
    assert out.token(handle) is not None
    assert out.token(out.auto_sampler) is None
    assert out.tokens_at(out.auto_sampler) == []
    for read in (out.token, out.tokens_at, out.entropy, out.logits, out.distribution):
        with pytest.raises(TypeError, match=r"^h must be "):
            read(0)
