"""Answers and events have all fields that the official packages declare, with their types.

The packages themselves do not check what a server sends: a field that is missing is an
AttributeError in the program that reads it.
"""

from __future__ import annotations

import json
from typing import Any

import anthropic.types
import httpx2 as httpx
import openai.types.chat
import openai.types.responses
import pydantic
import pytest
from openai.types.responses.input_token_count_response import InputTokenCountResponse
from openai_requests import CHAT, CITY, WEATHER

FORM = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}
CALL = {"tools": [WEATHER], "tool_choice": "required"}
CHATS = [
    {},
    {"n": 2, "logprobs": True, "top_logprobs": 2},
    {"response_format": FORM, "max_tokens": 200},
    {**CALL, "max_tokens": 300},
    {**CALL, "max_tokens": 3},
]
FUNCTION = {"type": "function", "name": "weather", "parameters": CITY, "strict": True}
RESPONSES = [
    {},
    {"instructions": "Be brief.", "temperature": 0.7, "top_p": 0.9, "max_output_tokens": 8},
    {"top_logprobs": 2, "max_output_tokens": 4},
    {"tools": [FUNCTION], "tool_choice": "required"},
    {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "weather"}},
    {"text": {"format": {"type": "json_schema", "name": "city", "schema": CITY}}},
    {"reasoning": {"effort": "low", "summary": "auto"}, "max_output_tokens": 8},
]
CLAUDE_TOOL = {"name": "weather", "description": "The weather", "input_schema": CITY}
MESSAGES = [
    {"max_tokens": 8},
    {"max_tokens": 300, "tools": [CLAUDE_TOOL], "tool_choice": {"type": "any"}},
    {"max_tokens": 8, "thinking": {"type": "enabled", "budget_tokens": 1024}},
]


def check(value: Any, kind: Any) -> Any:
    """Checks JSON against a type of a package."""
    return pydantic.TypeAdapter(kind).validate_python(value)


@pytest.fixture(scope="module")
def ask(api):
    def post(path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        url = f"http://127.0.0.1:{api.port}/v1/{path}"
        answer = httpx.post(url, json=body, headers=headers, timeout=300)
        assert answer.status_code == 200, answer.text
        return answer

    return post


def events(answer: httpx.Response) -> list[Any]:
    lines = answer.text.splitlines()
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(item) for item in data if item != "[DONE]"]


@pytest.mark.parametrize("more", CHATS)
def test_chat_completions(ask, model, more):
    asked = {"model": model, "messages": CHAT, "max_tokens": 8, **more}
    check(ask("chat/completions", asked).json(), openai.types.chat.ChatCompletion)
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    for event in events(ask("chat/completions", {**asked, **stream})):
        check(event, openai.types.chat.ChatCompletionChunk)


def test_completions_embeddings_and_models(api, ask, model):
    asked = {"model": model, "prompt": "Hello", "max_tokens": 4}
    check(ask("completions", asked).json(), openai.types.Completion)
    # The first token of an echo has no log-probability. The package's types forget that.
    answer = ask("completions", {**asked, "logprobs": 2, "n": 2}).json()
    check(answer, openai.types.Completion)
    made = ask("embeddings", {"model": model, "input": ["Hello", "Bye"]}).json()
    check(made, openai.types.CreateEmbeddingResponse)
    base = f"http://127.0.0.1:{api.port}/v1/models"
    for item in httpx.get(base).json()["data"]:
        check(item, openai.types.Model)
    for item in httpx.get(base, headers={"anthropic-version": "2023-06-01"}).json()["data"]:
        check(item, anthropic.types.ModelInfo)


@pytest.mark.parametrize("more", RESPONSES)
def test_responses(ask, model, more):
    asked = {"model": model, "input": "Hello", **more}
    answer = ask("responses", asked).json()
    check(answer, openai.types.responses.Response)
    for name in ("temperature", "top_p", "instructions", "max_output_tokens"):
        assert answer[name] == more.get(name, answer[name])  # as they were asked
    for event in events(ask("responses", {**asked, "stream": True})):
        check(event, openai.types.responses.ResponseStreamEvent)
    counted = ask("responses/input_tokens", asked).json()
    check(counted, InputTokenCountResponse)


@pytest.mark.parametrize("more", MESSAGES)
def test_messages(ask, model, more):
    asked = {"model": model, "messages": [{"role": "user", "content": "Hello"}], **more}
    check(ask("messages", asked).json(), anthropic.types.Message)
    for event in events(ask("messages", {**asked, "stream": True})):
        if event["type"] != "ping":
            check(event, anthropic.types.RawMessageStreamEvent)
