"""The Anthropic API, as the official client of it sees it. It is a part of inferlets/openai."""

from __future__ import annotations

import json

import anthropic
import httpx2 as httpx
import pytest
from openai_requests import CITY

HELLO = [{"role": "user", "content": "Hello"}]
WEATHER = {"name": "weather", "description": "The weather", "input_schema": CITY}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}


@pytest.fixture(scope="module")
def client(api) -> anthropic.Anthropic:
    base = f"http://127.0.0.1:{api.port}"
    return anthropic.Anthropic(base_url=base, api_key="unused", max_retries=0, timeout=300)


def test_models(client, model):
    found = client.models.retrieve(model)
    assert found.id == model and found.type == "model"
    with pytest.raises(anthropic.NotFoundError) as refused:
        client.models.retrieve("nothing")
    assert refused.value.body["error"]["type"] == "not_found_error"


def test_a_message(client, model):
    asked = {"model": model, "messages": HELLO, "system": "Be brief."}
    asked["extra_body"] = {"temperature": 0}
    message = client.messages.create(max_tokens=8, **asked)
    assert message.type == "message" and message.role == "assistant" and message.model == model
    (block,) = message.content
    assert block.type == "text" and block.text
    assert message.stop_reason in ("end_turn", "max_tokens")
    assert message.usage.input_tokens > 0 and 0 < message.usage.output_tokens <= 8
    del asked["extra_body"]
    counted = client.messages.count_tokens(**asked)
    # Of the tokens of a prompt, the API counts those that were cached apart.
    usage = message.usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens


def test_a_stream_says_the_same(client, model):
    asked = {"model": model, "messages": HELLO, "max_tokens": 12, "extra_body": {"temperature": 0}}
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    assert text == whole.content[0].text == last.content[0].text
    assert last.stop_reason == whole.stop_reason
    assert last.usage.output_tokens == whole.usage.output_tokens
    kinds = [event.type for event in client.messages.create(**asked, stream=True)]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def test_stop_sequences(client, model):
    asked = {"model": model, "messages": HELLO, "max_tokens": 24, "extra_body": {"temperature": 0}}
    text = client.messages.create(**asked).content[0].text
    stop = text[len(text) // 2 : len(text) // 2 + 3]
    message = client.messages.create(**asked, stop_sequences=[stop, "never said"])
    assert message.content[0].text == text[: text.index(stop)]
    assert message.stop_reason == "stop_sequence" and message.stop_sequence == stop


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "choice",
    [{"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "weather"}],
)
def test_a_call_of_a_tool(client, model, stream, choice):
    asked = {"model": model, "messages": HELLO, "max_tokens": 300, "tools": [WEATHER]}
    asked["tool_choice"] = choice
    if stream:
        with client.messages.stream(**asked) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**asked)
    (call,) = message.content
    assert call.type == "tool_use" and call.name == "weather"
    assert call.input["city"] in ("Seoul", "Oslo") and message.stop_reason == "tool_use"
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "3 degrees"}
    history = [
        *HELLO,
        {"role": "assistant", "content": [call.model_dump()]},
        {"role": "user", "content": [result, {"type": "text", "text": "So?"}]},
    ]
    after = client.messages.create(
        model=model, messages=history, max_tokens=4, tools=[WEATHER], tool_choice={"type": "none"}
    )
    assert after.content[0].type == "text"


def test_the_beginning_of_an_answer(client, model):
    """A last message of the assistant is continued, not answered."""
    asked = {"model": model, "max_tokens": 12, "extra_body": {"temperature": 0}}
    whole = client.messages.create(messages=HELLO, **asked).content[0].text
    begun = whole[:4].rstrip()
    asked["max_tokens"] = 12 - len(begun)
    turns = [*HELLO, {"role": "assistant", "content": begun}]
    assert begun + client.messages.create(messages=turns, **asked).content[0].text == whole
    turns[-1]["content"] += " "
    with pytest.raises(anthropic.BadRequestError, match="trailing whitespace"):
        client.messages.create(messages=turns, **asked)


def test_an_answer_of_a_schema(client, model):
    form = {"format": {"type": "json_schema", "schema": CITY}}
    asked = {"model": model, "messages": HELLO, "max_tokens": 200}
    message = client.messages.create(**asked, extra_body={"output_config": form})
    assert json.loads(message.content[0].text)["city"] in ("Seoul", "Oslo")


def test_answers_name_their_request(client, model):
    message = client.messages.create(model=model, messages=HELLO, max_tokens=2)
    assert message._request_id.startswith("req_")


def test_fields_that_only_anthropics_servers_know(api, client, model):
    """Clients send them unasked: they change nothing, and neither does null."""
    asked = {
        "model": model,
        "messages": HELLO,
        "max_tokens": 8,
        "temperature": 0,
        "tools": [WEATHER],
    }
    beta = {
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "speed": "fast", "container": None, "mcp_servers": [], "unheard_of": {"a": 1},
        "system": None, "stop_sequences": None, "top_k": None, "top_p": None, "tool_choice": None,
        "thinking": None, "output_config": {"format": None, "effort": "high"}, "metadata": None,
        "output_format": None, "stream": None,
        "tools": [WEATHER, SEARCH, {"type": "bash_20250124", "name": "bash"}],
    }  # fmt: skip
    answers = []
    for body in (asked, {**asked, **beta}):
        answer = httpx.post(f"http://127.0.0.1:{api.port}/v1/messages?beta=true", json=body)
        assert answer.status_code == 200, answer.text
        answers.append(answer.json())
    assert answers[0]["content"] == answers[1]["content"]
    totals = [
        answer["usage"]["input_tokens"] + answer["usage"]["cache_read_input_tokens"]
        for answer in answers
    ]
    assert totals[0] == totals[1]


def test_top_k(client, model):
    asked = {"model": model, "messages": HELLO, "max_tokens": 12}
    greedy = client.messages.create(**asked, extra_body={"temperature": 0}).content[0].text
    first = client.messages.create(**asked, extra_body={"temperature": 1, "top_k": 1})
    assert first.content[0].text == greedy


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages.0.content.0"),
        ({"messages": "Hello"}, "messages: must be a list"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages.0: user messages must have"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"extra_body": {"temperature": 1.5}}, "temperature"),
        ({"stop_sequences": [""]}, "stop_sequences"),
        ({"tools": [{"name": "x"}]}, "tools"),
        ({"tool_choice": {"type": "perhaps"}}, "tool_choice"),
        ({"extra_body": {"thinking": {"type": "deeply"}}}, "thinking"),
        ({"extra_body": {"output_config": {"format": {"type": "poem"}}}}, "output_config.format"),
        ({"tools": [SEARCH], "tool_choice": {"type": "any"}}, "this server runs no tools"),
        ({"tools": [SEARCH], "tool_choice": {"type": "tool", "name": "web_search"}}, "web_search"),
    ],
)
def test_bad_parameters(client, model, change, text):
    asked = {"model": model, "messages": HELLO, "max_tokens": 4, **change}
    with pytest.raises(anthropic.BadRequestError) as refused:
        client.messages.create(**asked)
    error = refused.value.body["error"]
    assert error["type"] == "invalid_request_error" and text in error["message"]


def test_errors_name_the_message_of_the_request(client, model):
    """A system text and blocks of several kinds do not shift the numbers of messages."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3 degrees"}
    turns = [
        *HELLO,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result, {"type": "text", "text": "So?"}]},
        {"role": "assistant", "content": "Cold."},
    ]
    asked = {"model": model, "max_tokens": 4, "system": [{"type": "text", "text": "Be brief."}]}
    for block, text in (
        ({**result, "tool_use_id": "toolu_2"}, "messages.4: unexpected tool_use_id"),
        ({"type": "image"}, "messages.4.content.0: a block of the type image is not served"),
    ):
        with pytest.raises(anthropic.BadRequestError) as refused:
            client.messages.create(messages=[*turns, {"role": "user", "content": [block]}], **asked)
        assert text in refused.value.body["error"]["message"]
    call["input"] = "Oslo"
    with pytest.raises(anthropic.BadRequestError, match=r"messages\.1\.content\.0"):
        client.messages.create(messages=turns, **asked)


def test_a_history_of_tools_that_other_servers_ran(client, model):
    """What the model said of their results counts; the results themselves are left out."""
    found = {"type": "web_search_result", "url": "https://a.example", "title": "A", "page_age": "1"}
    blocks = [
        {"type": "text", "text": "Let me look. "},
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "a"},
        },
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [found]},
        {"type": "mcp_tool_use", "id": "m1", "name": "x", "server_name": "s", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": []},
        {"type": "text", "text": "It is an A."},
    ]
    counts = []
    for content in (blocks, "Let me look. It is an A."):
        turns = [*HELLO, {"role": "assistant", "content": content}, *HELLO]
        body = {"model": model, "max_tokens": 4, "messages": turns}
        counted = client.messages.count_tokens(model=model, messages=turns).input_tokens
        assert client.messages.create(**body).content
        counts.append(counted)
    assert counts[0] == counts[1]


def test_messages_of_one_role_are_one_turn(client, model):
    asked = {"model": model, "max_tokens": 1}
    parts = [
        [*HELLO, {"role": "user", "content": "World"}],
        [{"role": "user", "content": "Hello\nWorld"}],
    ]
    counts = [client.messages.count_tokens(model=model, messages=turns) for turns in parts]
    assert counts[0].input_tokens == counts[1].input_tokens
    assert client.messages.create(messages=parts[0], **asked).content


def test_blocks_are_paragraphs(client, model):
    def tokens(messages, **more) -> int:
        counted = client.messages.count_tokens(model=model, messages=messages, **more)
        return counted.input_tokens

    def block(text: str) -> dict[str, str]:
        return {"type": "text", "text": text}

    call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1"}

    def answered(**more):
        turns = [*HELLO, {"role": "assistant", "content": [block("a"), block("b"), call]}]
        return [*turns, {"role": "user", "content": [{**result, **more}]}]

    parted = [{"role": "user", "content": [block("a"), block("b")]}]
    whole = [{"role": "user", "content": "a\nb"}]
    assert tokens(parted, system=[block("c"), block("d")]) == tokens(whole, system="c\nd")
    assert tokens(answered(content=[block("a"), block("b")])) == tokens(answered(content="a\nb"))
    # The model is told that a tool has failed.
    failed = tokens(answered(content="No such file", is_error=True))
    assert failed == tokens(answered(content="Error: No such file"))
    assert failed == tokens(answered(content="Error: No such file", is_error=True))
    assert tokens(answered(is_error=True)) == tokens(answered(content="Error:"))
    place = r"messages\.2\.content\.0\.content\.0: a block of the type image is not served"
    with pytest.raises(anthropic.BadRequestError, match=place):
        tokens(answered(content=[{"type": "image", "source": {}}]))


def test_errors_of_the_route(api, client):
    base = f"http://127.0.0.1:{api.port}/v1/messages"
    with pytest.raises(anthropic.NotFoundError) as refused:
        client.messages.create(model="claude-9", messages=HELLO, max_tokens=4)
    assert refused.value.body["type"] == "error"
    for body in (b"", b"[]", b"{", b"\xff\xfe", b"{}"):
        answer = httpx.post(base, content=body)
        assert answer.status_code == 400 and answer.json()["type"] == "error", body
    assert httpx.get(base).json()["error"]["type"] == "invalid_request_error"
