"""How the OpenAI and Anthropic APIs return thoughts, tool calls and texts that are too long.

The dummy model says what a script tells it to say, as models that think and call tools would.
"""

from __future__ import annotations

import json
from pathlib import Path

import anthropic
import openai
import pytest
from conftest import Serving, client_of, with_openai
from openai_requests import CITY, WEATHER

CALL = '<tool_call>\n{"name": "%s", "arguments": {"city": "%s", "degrees": 3}}\n</tool_call>'
ANSWERS = {
    "Think first": "<think>\nApples are sweet.\n</think>\n\nEat an apple.",
    "Call wrongly": "Let me see. " + CALL % ("wether", "Paris"),
    "Call twice": CALL % ("weather", "Oslo") + "\n" + CALL % ("weather", "Seoul"),
    "Call once": CALL % ("weather", "Oslo"),
    "Call for Paris": CALL % ("weather", "Paris"),
    "Call the odd one": CALL.replace("%s", "odd", 1) % "Oslo",
    "Fill in the form": '{"city": "Oslo", "degrees": 30}',
    "Say it in pieces": "<b>bold</b> is a tag that may begin a thought or a call, but does not",
    "Go on for ever": "a" * 2000,
}
PLACES = 1600  # tokens that the KV memory holds
CONFIG = """
[[model]]
[model.driver]
type = "dummy"
[model.driver.options]
kv_page_size = 16
total_pages = 100
script = "{script}"
"""


@pytest.fixture(scope="module")
def scripted(start, tmp_path_factory) -> Serving:
    script: Path = tmp_path_factory.mktemp("script") / "answers.toml"
    text = "[[answer]]\nrepeat = true\nwhen = {}\nsay = {}\n"
    tables = (text.format(json.dumps(when), json.dumps(say)) for when, say in ANSWERS.items())
    script.write_text("".join(tables))
    return with_openai(start(config=CONFIG.format(script=script)))


@pytest.fixture(scope="module")
def client(scripted) -> openai.OpenAI:
    return client_of(scripted)


@pytest.fixture(scope="module")
def claude(scripted) -> anthropic.Anthropic:
    base = f"http://127.0.0.1:{scripted.port}"
    return anthropic.Anthropic(base_url=base, api_key="unused", max_retries=0, timeout=300)


def say(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def chat(client, model, text: str, **more):
    return client.chat.completions.create(
        model=model, messages=say(text), temperature=0, max_tokens=300, **more
    )


# --- thoughts


def test_thoughts_are_no_part_of_the_answer(client, model):
    answer = chat(client, model, "Think first")
    message = answer.choices[0].message
    assert message.content == "Eat an apple."
    assert message.reasoning_content == "Apples are sweet."
    counted = answer.usage.completion_tokens_details.reasoning_tokens
    assert len("Apples are sweet.") < counted < answer.usage.completion_tokens
    text = thought = ""
    for chunk in chat(client, model, "Think first", stream=True):
        delta = chunk.choices[0].delta
        text += delta.content or ""
        thought += getattr(delta, "reasoning_content", None) or ""
    assert (text, thought) == ("Eat an apple.", "Apples are sweet.")


def test_an_answer_that_begins_like_a_thought(client, model):
    said = ANSWERS["Say it in pieces"]
    assert chat(client, model, "Say it in pieces").choices[0].message.content == said
    chunks = chat(client, model, "Say it in pieces", stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == said
    chunks = chat(client, model, "Say it in pieces", stream=True, tools=[WEATHER])
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == said


def test_thoughts_in_responses(client, model):
    asked = {"model": model, "input": "Think first", "max_output_tokens": 300, "temperature": 0}
    answer = client.responses.create(**asked)
    reasoning, message = answer.output
    assert reasoning.type == "reasoning" and reasoning.content[0].text == "Apples are sweet."
    assert message.type == "message" and answer.output_text == "Eat an apple."
    assert answer.usage.output_tokens_details.reasoning_tokens > 0
    events = list(client.responses.create(**asked, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    thought = [e.delta for e in events if e.type == "response.reasoning_text.delta"]
    assert "".join(thought) == "Apples are sweet."
    ended = kinds.index("response.output_item.done")
    assert kinds[ended - 1] == "response.reasoning_text.done"
    assert kinds[ended + 1] == "response.output_item.added"
    assert events[-1].response.output_text == "Eat an apple."
    with client.responses.stream(**asked) as stream:
        *_, last = stream
    assert last.response.output_text == "Eat an apple."
    history = [{"role": "user", "content": "Hello"}, *(item.model_dump() for item in answer.output)]
    again = [*history, {"role": "user", "content": "And then?"}]
    assert client.responses.create(model=model, input=again, max_output_tokens=4).output


def test_log_probabilities_are_of_the_answer_alone(client, model):
    said = "Eat an apple."
    (choice,) = chat(client, model, "Think first", logprobs=True, top_logprobs=1).choices
    assert choice.message.content == said
    assert "".join(token.token for token in choice.logprobs.content) == said
    chunks = chat(client, model, "Think first", logprobs=True, stream=True)
    scored = [c.choices[0].logprobs.content for c in chunks if c.choices[0].logprobs]
    assert "".join(token.token for part in scored for token in part) == said
    asked = {"model": model, "input": "Think first", "max_output_tokens": 300, "temperature": 0}
    asked |= {"top_logprobs": 1, "include": ["message.output_text.logprobs"]}
    *_, message = client.responses.create(**asked).output
    assert "".join(token.token for token in message.content[0].logprobs) == said
    # Tokens that might have begun a thought are scored once it is known that they do not.
    (choice,) = chat(client, model, "Say it in pieces", logprobs=True).choices
    assert "".join(token.token for token in choice.logprobs.content) == choice.message.content


def test_thoughts_in_messages(claude, model):
    asked = {"model": model, "messages": say("Think first"), "max_tokens": 300}
    asked["extra_body"] = {"temperature": 0}
    (block,) = claude.messages.create(**asked).content
    assert block.text == "Eat an apple."
    asked["extra_body"]["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    thinking, block = claude.messages.create(**asked).content
    assert thinking.type == "thinking" and thinking.thinking == "Apples are sweet."
    assert block.text == "Eat an apple."
    with claude.messages.stream(**asked) as stream:
        thinking, block = stream.get_final_message().content
    assert (thinking.thinking, block.text) == ("Apples are sweet.", "Eat an apple.")


def prompt_tokens(client, model, **more) -> int:
    return chat(client, model, "Call once", **more).usage.prompt_tokens


def test_the_effort_of_thinking_is_told_to_the_template(client, model):
    """The dummy's template writes empty thoughts where thinking is off, as Qwen3's does."""
    plain = prompt_tokens(client, model)
    empty = len("<think>\n\n</think>\n\n")
    for effort, more in [("none", empty), ("minimal", empty), ("low", 0), ("high", 0)]:
        assert prompt_tokens(client, model, reasoning_effort=effort) == plain + more, effort
    variables = {"chat_template_kwargs": {"enable_thinking": False}}
    assert prompt_tokens(client, model, extra_body=variables) == plain + empty
    asked = {"model": model, "input": "Call once", "max_output_tokens": 4}
    counts = [
        client.responses.create(**asked, **more).usage.input_tokens
        for more in ({}, {"reasoning": {"effort": "none"}})
    ]
    assert counts[1] == counts[0] + empty


def test_thinking_of_messages_is_told_to_the_template(claude, model):
    def count(**more) -> int:
        asked = {"model": model, "messages": say("Hello"), **more}
        return claude.messages.count_tokens(**asked).input_tokens

    plain, empty = count(), len("<think>\n\n</think>\n\n")
    assert count(thinking={"type": "disabled"}) == plain + empty
    assert count(thinking={"type": "enabled", "budget_tokens": 1024}) == plain


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"reasoning_effort": "some"}, "'reasoning_effort' must be none, minimal, low"),
        ({"extra_body": {"chat_template_kwargs": [1]}}, "'chat_template_kwargs' must be an object"),
        ({"extra_body": {"chat_template_kwargs": {"messages": True}}}, "the engine sets itself"),
        ({"extra_body": {"chat_template_kwargs": {"a": {"b": 1}}}}, "JSON string, boolean or"),
        ({"extra_body": {"chat_template_kwargs": {"a": "x" * 5000}}}, "at most 4096"),
    ],
)
def test_bad_options_of_templates(client, model, more, text):
    with pytest.raises(openai.BadRequestError, match=text):
        chat(client, model, "Hello", **more)


# --- calls


def test_many_tools(start, tmp_path, model):
    """Agents with several MCP servers have hundreds. Each byte is a token of the dummy."""
    script = tmp_path / "answers.toml"
    script.write_text(f"[[answer]]\nrepeat = true\nsay = {json.dumps(ANSWERS['Call once'])}\n")
    config = CONFIG.format(script=script).replace("total_pages = 100", "total_pages = 20000")
    client = client_of(with_openai(start(config=config)))

    def tool(number: int) -> dict:
        return {"type": "function", "function": {"name": f"tool_{number}"}}

    tools = [WEATHER, *(tool(number) for number in range(199))]
    (call,) = chat(client, model, "Call once", tools=tools).choices[0].message.tool_calls
    assert call.function.name == "weather"
    with pytest.raises(openai.BadRequestError, match="at most 1024 tools"):
        chat(client, model, "Call once", tools=[tool(number) for number in range(1025)])


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_is_well_formed_although_the_model_is_not_made_to_call(client, model, stream):
    """The model would call a tool that does not exist, for a city that the schema does not have."""
    answer = chat(client, model, "Call wrongly", tools=[WEATHER], stream=stream)
    if stream:
        choices = [chunk.choices[0] for chunk in answer]
        text = "".join(choice.delta.content or "" for choice in choices)
        calls = [call for choice in choices for call in choice.delta.tool_calls or []]
        finish = choices[-1].finish_reason
    else:
        message = answer.choices[0].message
        text, calls, finish = message.content, message.tool_calls, answer.choices[0].finish_reason
    (call,) = calls
    assert text.strip() == "Let me see." and finish == "tool_calls"
    assert call.function.name == "weather"
    arguments = json.loads(call.function.arguments)
    assert arguments.keys() == {"city", "degrees"} and arguments["city"] in ("Seoul", "Oslo")


def test_several_calls_or_one(client, claude, model):
    message = chat(client, model, "Call twice", tools=[WEATHER]).choices[0].message
    assert message.content is None
    both = message.tool_calls
    cities = [json.loads(call.function.arguments)["city"] for call in both]
    assert cities == ["Oslo", "Seoul"] and len({call.id for call in both}) == 2
    (one,) = (
        chat(client, model, "Call twice", tools=[WEATHER], parallel_tool_calls=False)
        .choices[0]
        .message.tool_calls
    )
    assert json.loads(one.function.arguments)["city"] == "Oslo"
    tool = {"name": "weather", "input_schema": CITY}
    asked = {"model": model, "messages": say("Call twice"), "max_tokens": 300, "tools": [tool]}
    asked["extra_body"] = {"temperature": 0}
    assert len(claude.messages.create(**asked).content) == 2
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    (call,) = claude.messages.create(**asked, tool_choice=choice).content
    assert call.input["city"] == "Oslo"


def history_of(message, said: str) -> list[dict[str, object]]:
    calls = [call.model_dump() for call in message.tool_calls]
    turns = [*say("Call once"), {"role": "assistant", "content": None, "tool_calls": calls}]
    return [*turns, {"role": "tool", "tool_call_id": calls[0]["id"], "content": said}]


def test_the_history_is_written_by_the_template(client, model):
    """However a client writes the arguments of a call, the prompt has them as the template does."""
    message = chat(client, model, "Call once", tools=[WEATHER]).choices[0].message
    turns = history_of(message, "3 degrees")
    asked = {"model": model, "tools": [WEATHER], "max_tokens": 4}
    lengths = set()
    for arguments in ('{"city": "Oslo", "degrees": 3}', '{"city":"Oslo",\n"degrees":3}'):
        turns[1]["tool_calls"][0]["function"]["arguments"] = arguments
        answer = client.chat.completions.create(messages=turns, **asked)
        lengths.add(answer.usage.prompt_tokens)
    assert len(lengths) == 1


def test_usage_says_what_was_cached(client, claude, model):
    turns = say("Zebras have stripes, and no two zebras have the same ones. " * 4)
    asked = {"model": model, "max_tokens": 4, "temperature": 0}
    first = client.chat.completions.create(messages=turns, **asked)
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    turns += [{"role": "assistant", "content": "Yes."}, *say("Why is that?")]
    second = client.chat.completions.create(messages=turns, **asked)
    least = first.usage.prompt_tokens - 32  # up to the answer, without partial pages
    assert least <= second.usage.prompt_tokens_details.cached_tokens < second.usage.prompt_tokens
    *_, last = client.chat.completions.create(
        messages=turns, n=2, stream=True, stream_options={"include_usage": True}, **asked
    )
    assert least <= last.usage.prompt_tokens_details.cached_tokens < last.usage.prompt_tokens
    answer = client.responses.create(model=model, input=turns, max_output_tokens=4)
    assert answer.usage.input_tokens == second.usage.prompt_tokens
    assert least <= answer.usage.input_tokens_details.cached_tokens < answer.usage.input_tokens
    spoken = {"model": model, "messages": turns, "max_tokens": 4}
    usage = claude.messages.create(**spoken).usage
    with claude.messages.stream(**spoken) as stream:
        streamed = stream.get_final_message().usage
    for counted in (usage, streamed):
        assert counted.cache_read_input_tokens >= least
        total = counted.input_tokens + counted.cache_read_input_tokens
        assert total == second.usage.prompt_tokens


def test_a_loop_of_tools_is_computed_once(client, model):
    """The history has the call as the model wrote it, so that its tokens are found again."""
    first = chat(client, model, "Call once", tools=[WEATHER])
    turns = history_of(first.choices[0].message, "It is 3 degrees.")
    second = client.chat.completions.create(
        model=model, messages=turns, tools=[WEATHER], max_tokens=4
    )
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert cached >= first.usage.total_tokens - 32


def test_only_allowed_tools_are_called(client, model):
    other = {"type": "function", "function": {"name": "bake", "parameters": CITY}}
    choice = {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": "bake"}}],
        },
    }
    answer = chat(client, model, "Call twice", tools=[WEATHER, other], tool_choice=choice)
    calls = answer.choices[0].message.tool_calls
    assert calls and {call.function.name for call in calls} == {"bake"}
    choice["allowed_tools"]["mode"] = "required"
    asked = {"tools": [WEATHER, other], "tool_choice": choice, "parallel_tool_calls": False}
    answer = chat(client, model, "Hello", **asked)
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "bake"


def test_a_tool_whose_schema_cannot_be_used(client, model):
    bad = {"type": "object", "properties": {"x": {"type": "nonsense"}}}
    tool = {"type": "function", "function": {"name": "x", "parameters": bad}}
    with pytest.raises(openai.BadRequestError) as refused:
        chat(client, model, "Hello", tools=[tool], tool_choice="required")
    assert refused.value.param == "tools"


ODD = {"type": "object", "properties": {"city": {"type": "nonsense"}}}


def test_a_tool_with_such_a_schema_leaves_the_others_their_grammar(client, model):
    tools = [WEATHER, {"type": "function", "function": {"name": "odd", "parameters": ODD}}]
    message = chat(client, model, "Call wrongly", tools=tools).choices[0].message
    (call,) = message.tool_calls
    assert message.content.strip() == "Let me see." and call.function.name in ("weather", "odd")
    called = chat(client, model, "Call once", tools=tools).choices[0].message.tool_calls[0]
    assert json.loads(called.function.arguments)["city"] == "Oslo"
    (called,) = chat(client, model, "Call the odd one", tools=tools).choices[0].message.tool_calls
    assert called.function.name == "odd" and json.loads(called.function.arguments)["degrees"] == 3
    wrong = chat(client, model, "Call for Paris", tools=tools).choices[0].message.tool_calls[0]
    assert json.loads(wrong.function.arguments)["city"] in ("Seoul", "Oslo")


def test_several_calls_that_are_required(client, model):
    def cities(**more) -> list[str]:
        answer = chat(client, model, "Call twice", tools=[WEATHER], **more)
        assert answer.choices[0].finish_reason == "tool_calls"
        calls = answer.choices[0].message.tool_calls
        return [json.loads(call.function.arguments)["city"] for call in calls]

    assert cities(tool_choice="required") == ["Oslo", "Seoul"]
    assert cities(tool_choice="required", parallel_tool_calls=False) == ["Oslo"]
    named = {"type": "function", "function": {"name": "weather"}}
    assert cities(tool_choice=named) == ["Oslo"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_form_or_a_call(client, model, stream):
    """With tools and a form, the model chooses between a call and an answer of this form."""
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}

    def asked(text: str):
        more = {"tools": [WEATHER], "response_format": form, "stream": stream}
        answer = chat(client, model, text, **more)
        if not stream:
            message = answer.choices[0].message
            return message.content or "", message.tool_calls or [], 0
        deltas = [chunk.choices[0].delta for chunk in answer]
        said = [delta.content for delta in deltas if delta.content]
        calls = [call for delta in deltas for call in delta.tool_calls or []]
        return "".join(said), calls, len(said)

    text, calls, pieces = asked("Fill in the form")
    assert json.loads(text) == {"city": "Oslo", "degrees": 30} and not calls
    assert not stream or pieces > 3  # it comes as it is made
    text, calls, _ = asked("Call twice")
    assert not text and len(calls) == 2
    assert json.loads(calls[0].function.arguments)["city"] == "Oslo"
    text, calls, _ = asked("Call for Paris")
    assert not text and json.loads(calls[0].function.arguments)["city"] in ("Seoul", "Oslo")


# --- texts that are too long


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_is_too_long(client, claude, model, stream):
    long = "x" * (PLACES + 1)
    asked = {"model": model, "max_tokens": 4, "stream": stream}
    for ask in (
        lambda: client.chat.completions.create(messages=say(long), **asked),
        lambda: client.completions.create(prompt=long, **asked),
        lambda: client.responses.create(model=model, input=long, stream=stream),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            ask()
        assert refused.value.code == "context_length_exceeded"
    with pytest.raises(anthropic.BadRequestError) as refused:
        claude.messages.create(messages=say(long), **asked)
    assert refused.value.body["error"]["type"] == "invalid_request_error"


def test_an_answer_ends_where_the_memory_ends(client, claude, model):
    answer = client.chat.completions.create(
        model=model, messages=say("Go on for ever"), max_tokens=3000, temperature=0
    )
    assert answer.choices[0].finish_reason == "length"
    assert 0 < answer.usage.completion_tokens < PLACES
    assert set(answer.choices[0].message.content) == {"a"}
    message = claude.messages.create(
        model=model,
        messages=say("Go on for ever"),
        max_tokens=3000,
        extra_body={"temperature": 0},
    )
    assert message.stop_reason == "max_tokens"
