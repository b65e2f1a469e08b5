"""The OpenAI API, as the official client of it sees it. It is an inferlet: inferlets/openai."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
from typing import Literal

import httpx2 as httpx
import openai
import pydantic
import pytest
from conftest import ROOT

from bakery.toolchain import cache_dir

CHAT = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Hello"}]
BROKEN = {"id": "x", "type": "function", "function": {"name": "weather", "arguments": "[1"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def test_models(client, model):
    assert client.models.retrieve(model).id == model
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("nothing")
    assert refused.value.code == "model_not_found"


def test_chat(client, model):
    answer = client.chat.completions.create(model=model, messages=CHAT, max_tokens=8, temperature=0)
    assert answer.object == "chat.completion" and answer.model == model
    (choice,) = answer.choices
    assert choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert answer.usage.prompt_tokens > 0 and 0 < answer.usage.completion_tokens <= 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def counts(usage) -> dict[str, int]:
    """The counts of a request, without the cached tokens, which depend on earlier requests."""
    return usage.model_dump(exclude={"prompt_tokens_details"})


def test_a_stream_says_the_same(client, model):
    def asked(**more):
        return client.chat.completions.create(
            model=model, messages=CHAT, max_tokens=12, temperature=0.8, seed=7, **more
        )

    whole = asked()
    chunks = list(asked(stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    finishes = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert finishes[-1] == whole.choices[0].finish_reason and set(finishes[:-1]) == {None}
    assert chunks[-1].choices == [] and counts(chunks[-1].usage) == counts(whole.usage)


def test_choices_differ_and_repeat_with_a_seed(client, model):
    def asked():
        answer = client.chat.completions.create(
            model=model, messages=CHAT, max_tokens=12, temperature=1.5, n=3, seed=-3
        )
        assert [choice.index for choice in answer.choices] == [0, 1, 2]
        return [choice.message.content for choice in answer.choices]

    first = asked()
    assert len(set(first)) > 1
    assert asked() == first


def test_stop_texts(client, model):
    asked = {"model": model, "messages": CHAT, "max_tokens": 24, "temperature": 0}
    text = client.chat.completions.create(**asked).choices[0].message.content
    stop = text[len(text) // 2 : len(text) // 2 + 3]
    assert stop
    stops = [stop, *(f"never said {number}" for number in range(63))]
    (choice,) = client.chat.completions.create(**asked, stop=stops).choices
    assert choice.message.content == text[: text.index(stop)]
    assert choice.finish_reason == "stop"


def test_logprobs(client, model):
    answer = client.chat.completions.create(
        model=model, messages=CHAT, max_tokens=4, temperature=0, logprobs=True, top_logprobs=3
    )
    scored = answer.choices[0].logprobs.content
    assert len(scored) == answer.usage.completion_tokens
    for token in scored:
        assert len(token.top_logprobs) == 3
        assert token.logprob == pytest.approx(token.top_logprobs[0].logprob, abs=1e-4)
        ranks = [top.logprob for top in token.top_logprobs]
        assert ranks == sorted(ranks, reverse=True) and ranks[0] <= 0


CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Seoul", "Oslo"]},
        "degrees": {"type": "integer", "minimum": 0, "maximum": 40},
    },
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather", "parameters": CITY},
}


def tool_with(**changes) -> dict:
    return {"type": "function", "function": {**WEATHER["function"], **changes}}


@pytest.mark.parametrize("stream", [False, True])
def test_json_schema(client, model, stream):
    answer = client.chat.completions.create(
        model=model,
        messages=CHAT,
        max_tokens=200,
        response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}},
        stream=stream,
    )
    if stream:
        text = "".join(chunk.choices[0].delta.content or "" for chunk in answer)
    else:
        text = answer.choices[0].message.content
        assert answer.choices[0].finish_reason == "stop"
    said = json.loads(text)
    assert said["city"] in ("Seoul", "Oslo") and 0 <= said["degrees"] <= 40


def test_a_schema_that_cannot_be_used(client, model):
    bad = {"type": "object", "properties": {"x": {"type": "nonsense"}}}
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model=model,
            messages=CHAT,
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": bad}},
        )
    assert refused.value.param == "response_format"


class City(pydantic.BaseModel):
    city: Literal["Seoul", "Oslo"]
    degrees: int = pydantic.Field(ge=0, le=40)


def test_helpers_of_the_package(client, model):
    """The client's helpers build schemas, put streams together, and read answers."""
    asked = {"model": model, "messages": CHAT}
    answer = client.chat.completions.parse(response_format=City, max_tokens=200, **asked)
    assert 0 <= answer.choices[0].message.parsed.degrees <= 40
    with client.chat.completions.stream(max_tokens=8, temperature=0, **asked) as stream:
        kinds = {event.type for event in stream}
        said = stream.current_completion_snapshot.choices[0].message.content
    whole = client.chat.completions.create(max_tokens=8, temperature=0, **asked)
    assert said == whole.choices[0].message.content and "content.delta" in kinds
    tool = openai.pydantic_function_tool(City, name="weather")
    forced = {"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False}
    answer = client.chat.completions.parse(max_tokens=300, **forced, **asked)
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.parsed_arguments.city in ("Seoul", "Oslo")
    response = client.responses.parse(
        model=model, input="Hello", text_format=City, max_output_tokens=200
    )
    assert response.output_parsed.city in ("Seoul", "Oslo")


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_a_tool(client, model, stream):
    asked = {
        "model": model,
        "messages": CHAT,
        "tools": [WEATHER],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "max_tokens": 300,
    }
    answer = client.chat.completions.create(**asked, stream=stream)
    if stream:
        chunks = list(answer)
        (call,) = next(
            c.choices[0].delta.tool_calls for c in chunks if c.choices[0].delta.tool_calls
        )
        finish = chunks[-1].choices[0].finish_reason
    else:
        (call,) = answer.choices[0].message.tool_calls
        finish = answer.choices[0].finish_reason
    assert call.function.name == "weather" and call.id and finish == "tool_calls"
    arguments = json.loads(call.function.arguments)
    assert arguments["city"] in ("Seoul", "Oslo")
    history = [
        *CHAT,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": "weather", "arguments": call.function.arguments},
                }
            ],
        },
        {"role": "tool", "tool_call_id": call.id, "content": '{"degrees": 3}'},
    ]
    after = client.chat.completions.create(
        model=model, messages=history, tools=[WEATHER], tool_choice="none", max_tokens=4
    )
    assert after.choices[0].finish_reason in ("stop", "length")
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model=model, messages=[*CHAT, {"role": "tool", "tool_call_id": "x", "content": "y"}]
        )
    assert refused.value.param == "messages[2].tool_call_id"


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_breaks_off_is_no_text(client, model, stream):
    """At the limit the call is not complete: there is neither a call nor a part of it."""
    asked = {"model": model, "messages": CHAT, "tools": [WEATHER], "tool_choice": "required"}
    answer = client.chat.completions.create(**asked, max_tokens=3, stream=stream)
    if stream:
        deltas = [chunk.choices[0].delta for chunk in answer]
        assert not any(delta.content or delta.tool_calls for delta in deltas)
        return
    (choice,) = answer.choices
    assert choice.finish_reason == "length"
    assert choice.message.content is None and not choice.message.tool_calls


def test_a_conversation_goes_on(client, model):
    turns = list(CHAT)
    for said in ("And then?", "Why?"):
        answer = client.chat.completions.create(model=model, messages=turns, max_tokens=6)
        turns += [
            {"role": "assistant", "content": answer.choices[0].message.content},
            {"role": "user", "content": [{"type": "text", "text": said}]},
        ]
    assert client.chat.completions.create(model=model, messages=turns, max_tokens=6).choices


def metric(api, name: str) -> int:
    text = httpx.get(f"http://127.0.0.1:{api.port}/metrics").text
    line = next(line for line in text.splitlines() if line.startswith(f"{name} "))
    return int(float(line.split()[1]))


def test_a_conversation_is_computed_once(api, client, model):
    system = {"role": "system", "content": "You are brief. " * 40}
    turns = [system, {"role": "user", "content": "a"}]
    first = client.chat.completions.create(model=model, messages=turns, max_tokens=4)
    said = first.choices[0].message.content
    turns += [{"role": "assistant", "content": said}, {"role": "user", "content": "b"}]
    before = metric(api, "pie_tokens_total")
    second = client.chat.completions.create(model=model, messages=turns, max_tokens=4)
    computed = metric(api, "pie_tokens_total") - before
    assert computed < second.usage.prompt_tokens / 4
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert second.usage.prompt_tokens * 3 / 4 < cached < second.usage.prompt_tokens


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"temperature": 3}, "temperature"),
        ({"n": 0}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"stop": ["a"] * 65}, "stop"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
        ({"tools": [{"type": "function"}]}, "tools[0]"),
        ({"tools": [WEATHER, {"type": "custom", "custom": {"name": "x"}}]}, "tools[1]"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].function.name"),
        ({"tools": [tool_with(name="two words")]}, "tools[0].function.name"),
        ({"tools": [tool_with(name="")]}, "tools[0].function.name"),
        ({"tools": [tool_with(parameters=5)]}, "tools[0].function.parameters"),
        ({"tools": [tool_with(description=5)]}, "tools[0].function.description"),
        ({"parallel_tool_calls": 5}, "parallel_tool_calls"),
        ({"messages": [{"role": "assistant", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls"),
        ({"messages": [{"role": "assistant", "tool_calls": [BROKEN]}]}, "messages[0].tool_calls"),
        ({"functions": [{"name": "x"}]}, "functions"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"audio": {"voice": "x"}}, "audio"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages[0].content"),
        ({"n": 129}, "n"),
        ({"unheard_of": 1}, "unheard_of"),
        ({"max_completion_tokens": 4}, "max_tokens"),  # beside max_tokens
        ({"logit_bias": {"1000000": 5}}, "logit_bias"),
        ({"stream_options": "usage", "stream": True}, "stream_options"),
        ({"user": 5}, "user"),
        ({"metadata": "x"}, "metadata"),
        ({"store": "yes"}, "store"),
    ],
)
def test_bad_parameters(client, model, change, param):
    fields = {"model": model, "messages": CHAT, "max_tokens": 4, **change}
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/chat/completions", body=fields, cast_to=object)
    assert refused.value.param == param
    assert refused.value.type == "invalid_request_error"


def test_what_is_refused_is_named(client, model):
    with pytest.raises(openai.BadRequestError, match="a tool of the type 'web_search' is not"):
        client.post(
            "/chat/completions",
            body={"model": model, "messages": CHAT, "tools": [{"type": "web_search"}]},
            cast_to=object,
        )

    with pytest.raises(openai.BadRequestError, match='"image_url" is not served'):
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": [IMAGE]}])


def test_fields_that_change_nothing(client, model):
    """Such fields are accepted, as is null for every field."""
    fields = {"model": model, "messages": CHAT, "max_tokens": 4, "temperature": 0}
    known = {
        "user": "ada", "metadata": {"a": "b"}, "store": True, "service_tier": "auto",
        "parallel_tool_calls": True, "modalities": ["text"], "prediction": None,
        "functions": None, "audio": None, "stop": None, "n": None, "tools": None, "seed": None,
        "logit_bias": None, "stream_options": None, "response_format": {"type": "text"},
    }  # fmt: skip
    answers = [
        client.post("/chat/completions", body=body, cast_to=object)
        for body in (fields, {**fields, **known})
    ]
    texts = [answer["choices"][0]["message"]["content"] for answer in answers]
    assert texts[0] == texts[1]


def test_messages_of_every_kind(client, model):
    turns = [
        {"role": "developer", "content": [{"type": "text", "text": "You are brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "user", "content": "c", "name": "ada"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"role": "user", "content": "d"},
    ]
    same = [
        {"role": "system", "content": "You are brief."},
        {"role": "user", "content": "ab"},
        {"role": "assistant", "content": "No."},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "No."},
        {"role": "user", "content": "d"},
    ]
    asked = {"model": model, "max_tokens": 8, "temperature": 0}
    answers = [client.chat.completions.create(messages=said, **asked) for said in (turns, same)]
    assert counts(answers[0].usage) == counts(answers[1].usage)
    assert answers[0].choices[0].message.content == answers[1].choices[0].message.content


def test_answers_name_their_request(client, model):
    answer = client.chat.completions.create(model=model, messages=CHAT, max_tokens=2)
    other = client.chat.completions.create(model=model, messages=CHAT, max_tokens=2)
    assert answer._request_id.startswith("req_") and answer._request_id != other._request_id


def test_a_stream_of_several_choices_with_logprobs(client, model):
    asked = {"model": model, "messages": CHAT, "max_tokens": 10, "temperature": 1.5, "seed": 11}
    asked |= {"n": 2, "logprobs": True, "top_logprobs": 2}
    whole = client.chat.completions.create(**asked)
    texts, words = ["", ""], [[], []]
    for chunk in client.chat.completions.create(**asked, stream=True):
        (choice,) = chunk.choices
        texts[choice.index] += choice.delta.content or ""
        if choice.logprobs:
            words[choice.index] += [token.token for token in choice.logprobs.content]
    assert texts == [choice.message.content for choice in whole.choices]
    for choice, own in zip(whole.choices, words, strict=True):
        assert own == [token.token for token in choice.logprobs.content]


def test_a_form_with_biases_and_penalties(client, model):
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}
    asked = {"model": model, "messages": CHAT, "max_tokens": 200, "response_format": form}
    for more in ({"frequency_penalty": 1.5}, {"logit_bias": {"100": 20}}):
        (choice,) = client.chat.completions.create(**asked, **more).choices
        assert choice.finish_reason == "stop"
        assert json.loads(choice.message.content)["city"] in ("Seoul", "Oslo")
    call = {"tools": [WEATHER], "tool_choice": "required", "presence_penalty": 0.5}
    call["parallel_tool_calls"] = False
    (choice,) = client.chat.completions.create(
        model=model, messages=CHAT, max_tokens=300, **call
    ).choices
    (called,) = choice.message.tool_calls
    assert json.loads(called.function.arguments)["city"] in ("Seoul", "Oslo")


def test_biases_and_penalties(client, model):
    def tokens(limit: int, **more) -> list[str]:
        answer = client.chat.completions.create(
            model=model, messages=CHAT, max_tokens=limit, logprobs=True, seed=5, **more
        )
        return [token.token for token in answer.choices[0].logprobs.content]

    # A large bias decides, whatever the temperature.
    (first,) = set(tokens(12, temperature=1, logit_bias={"100": 90}))
    (other,) = set(tokens(12, temperature=1, logit_bias={"101": 90}))
    assert first != other
    small = tokens(12, temperature=1, logit_bias={"100": 0.5})
    assert small == tokens(12, temperature=1, logit_bias={"100": 0.5})  # by the seed
    # A penalty takes the preference away, bit by bit.
    said = tokens(60, temperature=0, logit_bias={"100": 40}, frequency_penalty=2)
    assert said[0] == first and said.count(first) < 60
    stream = client.chat.completions.create(
        model=model, messages=CHAT, max_tokens=4, logit_bias={"100": 90}, stream=True
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text == first * 4


@pytest.mark.parametrize("stream", [False, True])
def test_tools_that_the_model_need_not_call(client, model, stream):
    """With `auto`, the text of an answer without a call comes as it is made."""
    asked = {"model": model, "messages": CHAT, "tools": [WEATHER], "max_tokens": 40}
    answer = client.chat.completions.create(**asked, temperature=0, stream=stream)
    if not stream:
        assert answer.choices[0].finish_reason in ("stop", "length", "tool_calls")
        return
    chunks = [chunk.choices[0] for chunk in answer]
    said = [chunk.delta.content for chunk in chunks if chunk.delta.content]
    assert len(said) > 3  # and not in one piece at the end
    whole = client.chat.completions.create(**asked, temperature=0).choices[0].message.content
    assert "".join(said) == whole


NODE = """
import OpenAI from '%s';
const client = new OpenAI({ baseURL: process.argv[2], apiKey: 'unused', maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const messages = [{ role: 'user', content: 'Hello' }];
const asked = { model, messages, max_tokens: 8, temperature: 0 };
const whole = await client.chat.completions.create(asked);
let streamed = '';
for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
  streamed += chunk.choices[0].delta.content ?? '';
}
const given = { model, input: 'Hello', max_output_tokens: 8, temperature: 0 };
const response = await client.responses.create(given);
let events = '';
for await (const event of await client.responses.create({ ...given, stream: true })) {
  if (event.type === 'response.output_text.delta') events += event.delta;
}
let refused = '';
try {
  await client.chat.completions.create({ ...asked, model: 'gpt-9' });
} catch (error) {
  refused = `${error instanceof OpenAI.NotFoundError} ${error.code}`;
}
const made = await client.embeddings.create({ model, input: ['Hello', 'Bye'] });
const lengths = made.data.map(({ embedding }) => Math.hypot(...embedding));
const said = whole.choices[0].message.content;
const told = { said, streamed, response: response.output_text, events, refused, lengths };
console.log(JSON.stringify(told));
"""


def test_the_node_package(api, tmp_path):
    lock = (ROOT / "tests/serve/node/package-lock.json").read_bytes()
    modules = cache_dir(f"test-js-{hashlib.sha256(lock).hexdigest()[:16]}") / "node_modules"
    assert modules.is_dir(), "the packages of tests/serve/node are missing: make setup-test"
    script = tmp_path / "ask.mjs"
    script.write_text(NODE % (modules / "openai/index.mjs"))
    done = subprocess.run(
        ["node", script, f"http://127.0.0.1:{api.port}/v1"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    said = json.loads(done.stdout)
    assert said["said"] and said["streamed"] == said["said"]
    assert said["response"] == said["said"] == said["events"]
    assert said["refused"] == "true model_not_found"
    assert said["lengths"] == pytest.approx([1, 1], abs=1e-5)


def test_errors_of_the_route(api, client):
    base = f"http://127.0.0.1:{api.port}/v1"
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="gpt-9", messages=CHAT)
    assert refused.value.code == "model_not_found"
    for route in ("chat/completions", "completions", "responses", "embeddings"):
        for body in (b"", b"[]", b"{", b"\xff\xfe", b'{"model": 5}'):
            answer = httpx.post(f"{base}/{route}", content=body)
            assert answer.status_code == 400, (route, body)
            assert answer.json()["error"]["type"] == "invalid_request_error"
    assert httpx.get(f"{base}/chat/completions").status_code == 405
    assert httpx.get(f"{base}/nowhere").status_code == 404


def test_a_client_that_leaves_ends_the_generation(api, client, model):
    endless = {"257": -100, "259": -100}  # the dummy model's ends of a text and of a turn
    stream = client.chat.completions.create(
        model=model, messages=CHAT, max_tokens=100_000, stream=True, logit_bias=endless
    )
    for _ in range(3):
        next(stream)
    stream.close()

    for _ in range(600):
        if metric(api, "pie_instances") == 0:
            return
        asyncio.run(asyncio.sleep(0.1))
    pytest.fail("the instance did not end")
