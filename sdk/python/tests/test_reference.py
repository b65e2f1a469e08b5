"""Every name of the two references is there, under the signature that they give it."""

import inspect

import pytest

import inferlet
from inferlet import chat, mcp, messaging, reasoning, runtime, scheduling, session, tools, zo

CURRENT = """
Adapter AnyJson Context Distribution Ebnf Embedding Entropy Grammar GrammarConstraint JsonSchema
Logits Logprob Logprobs Matcher Model Regex Sampler chat mcp messaging reasoning runtime scheduling
session tools
"""
OLDER = """
Model Tokenizer Context TokenStream EventStream Sampler Event Decoder ForwardPass Grammar Matcher
Adapter session runtime messaging mcp zo
"""
MEMBERS = {
    runtime: "models version instance_id username spawn",
    inferlet.Model: "load tokenizer",
    inferlet.Tokenizer: "encode decode vocabs special_tokens split_regex",
    inferlet.Context: """
        open take delete fork save snapshot release system user assistant cue seal append flush
        page_size seq_len buffer truncate generate forward set_bid idle __enter__
        fill fill_tokens generate_text equip_tools answer_tool
    """,
    inferlet.Generator: """
        max_tokens stop add_stop constrain horizon adapter zo_seed probe_each_step tokens_generated
        is_done collect_tokens collect_text collect_json accept __aiter__ __anext__
        text tokens __iter__
    """,
    inferlet.GenStep: "clear_sampler probe execute",
    inferlet.Forward: """
        input input_at attention_mask mask sample probe adapter zo_seed execute start_position
    """,
    inferlet.Output: """
        token tokens_at distribution logits logprobs entropy tokens auto_sampler raw
    """,
    inferlet.Sampler: """
        argmax top_p top_k min_p top_k_top_p multinomial greedy embedding dist
    """,
    inferlet.Grammar: "from_json_schema json from_regex from_ebnf",
    inferlet.GrammarConstraint: "from_grammar from_json_schema json from_regex from_ebnf",
    inferlet.Matcher: "accept_tokens next_token_logit_mask is_terminated reset",
    inferlet.Adapter: "create open fork save load __enter__",
    chat: "Decoder Event system user assistant cue seal stop_tokens",
    chat.Event: "Idle Delta Done Interrupt",
    reasoning.Event: "Idle Start Delta End",
    tools: "Decoder Event equip_prefix answer_prefix native_matcher",
    tools.Event: "Start Call",
    session: "send send_file receive receive_file",
    messaging: "broadcast subscribe push pull",
    messaging.Subscription: "next unsubscribe __aiter__ __iter__ __enter__",
    mcp: "available_servers connect",
    mcp.McpSession: """
        list_tools call_tool list_resources read_resource list_prompts get_prompt __enter__
    """,
    scheduling: "balance rent dividend latency price",
    zo: "initialize update",
    inferlet.Event: "Text Thinking ThinkingDone ToolCallStart ToolCall Done",
    inferlet.spec.Speculator: "draft accept rollback reset",
}


@pytest.mark.parametrize("name", sorted({*CURRENT.split(), *OLDER.split()}))
def test_exports(name):
    assert name in inferlet.__all__ and hasattr(inferlet, name)


@pytest.mark.parametrize(
    ("owner", "names"), MEMBERS.items(), ids=lambda v: getattr(v, "__name__", "")
)
def test_members(owner, names):
    assert [name for name in names.split() if not hasattr(owner, name)] == []


def test_generate_takes_the_documented_options():
    parameters = inspect.signature(inferlet.Generator).parameters
    documented = [
        "max_tokens",
        "stop",
        "constrain",
        "logit_mask",
        "speculator",
        "system_speculation",
        "adapter",
        "zo_seed",
        "horizon",
        "auto_flush",
    ]
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in documented)
    assert parameters["auto_flush"].default is True
    assert parameters["system_speculation"].default is False
    assert set(parameters) - {"ctx", "sampler"} == set(
        inferlet.generator.GenerateOptions.__annotations__
    )


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (inferlet.Generator.adapter, "a"),
        (inferlet.Forward.adapter, "a"),
        (inferlet.Output.token, "h"),
        (inferlet.Output.tokens_at, "h"),
        (inferlet.Output.distribution, "h"),
        (inferlet.Output.logits, "h"),
        (inferlet.Output.logprobs, "h"),
        (inferlet.Output.entropy, "h"),
        (chat.system, "model msg"),
        (chat.user, "model msg"),
        (chat.assistant, "model msg"),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_parameters_have_the_documented_names(function, names):
    found = [name for name in inspect.signature(function).parameters if name != "self"]
    assert found == names.split()


def test_schemas_take_the_documented_keywords():
    assert inferlet.JsonSchema(schema="{}").schema == "{}"
    assert inferlet.Regex(pattern="a").pattern == "a"
    assert inferlet.Ebnf(source="s").source == "s"
    assert inferlet.AnyJson() == inferlet.AnyJson()


def test_speculators_exclude_each_other(model):
    class Drafter:
        def draft(self):
            return [], []

    with inferlet.Context(model) as ctx, pytest.raises(ValueError, match="exclude"):
        ctx.generate(inferlet.Sampler.argmax(), speculator=Drafter(), system_speculation=True)


@pytest.mark.parametrize(
    "events", [inferlet.Event, inferlet.chat.Event, inferlet.reasoning.Event, inferlet.tools.Event]
)
def test_every_event_is_an_event(events):
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type)]
    assert kinds
    for kind in kinds:
        assert issubclass(kind, events)
        event = kind(*["7"] * len(kind.__match_args__))
        assert isinstance(event, events)
        assert isinstance(event, kind)
    assert not isinstance("text", events)
    assert not isinstance(inferlet.AnyJson(), events)
    assert not isinstance(inferlet.chat.Event.Idle(), inferlet.Event)
