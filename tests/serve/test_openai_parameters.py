"""Parameters of chat completions that are refused, and parameters that are ignored."""

from __future__ import annotations

import openai
import pytest
from openai_requests import CHAT, WEATHER

BROKEN = {"id": "x", "type": "function", "function": {"name": "weather", "arguments": "[1"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def tool_with(**changes) -> dict:
    return {"type": "function", "function": {**WEATHER["function"], **changes}}


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
        ({"max_completion_tokens": 4}, "max_tokens"),  # given together with max_tokens
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
