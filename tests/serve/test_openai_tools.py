"""Structured output and tools of the OpenAI API, tested with its official client."""

from __future__ import annotations

import json
from typing import Literal

import openai
import pydantic
import pytest
from openai_requests import CHAT, CITY, WEATHER


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
    """The client's helpers make schemas, assemble streams, and parse answers."""
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
    """At the limit the call is incomplete, so the answer has neither the call nor a part of it."""
    asked = {"model": model, "messages": CHAT, "tools": [WEATHER], "tool_choice": "required"}
    answer = client.chat.completions.create(**asked, max_tokens=3, stream=stream)
    if stream:
        deltas = [chunk.choices[0].delta for chunk in answer]
        assert not any(delta.content or delta.tool_calls for delta in deltas)
        return
    (choice,) = answer.choices
    assert choice.finish_reason == "length"
    assert choice.message.content is None and not choice.message.tool_calls


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
