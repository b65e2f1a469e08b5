"""`/v1/responses` of the OpenAI API, as the official client of it sees it."""

from __future__ import annotations

import json
import time

import openai
import pytest
from conftest import client_of, with_openai
from openai_requests import CITY

TOOL = {"type": "function", "name": "weather", "parameters": CITY, "strict": True}


def test_responses(client, model):
    answer = client.responses.create(
        model=model, input="Hello", instructions="Be brief.", max_output_tokens=8, temperature=0
    )
    assert answer.object == "response" and answer.output_text
    assert answer.status in ("completed", "incomplete")
    assert answer.usage.input_tokens > 0 and 0 < answer.usage.output_tokens <= 8
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    same = client.chat.completions.create(
        model=model, messages=chat, max_tokens=8, temperature=0
    ).choices[0]
    assert answer.output_text == same.message.content
    assert (answer.status == "incomplete") == (same.finish_reason == "length")
    history = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        *(item.model_dump() for item in answer.output),
        {"role": "user", "content": "And then?"},
    ]
    assert client.responses.create(model=model, input=history, max_output_tokens=4).output


def test_a_stream_of_responses(client, model):
    asked = {"model": model, "input": "Hello", "max_output_tokens": 12, "temperature": 0}
    whole = client.responses.create(**asked)
    events = list(client.responses.create(**asked, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == f"response.{whole.status}"
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == whole.output_text
    assert events[-1].response.output_text == whole.output_text
    with client.responses.stream(**asked) as stream:  # the package puts the events together
        *_, last = stream
    assert last.response.output_text == whole.output_text


@pytest.mark.parametrize("stream", [False, True])
def test_responses_with_tools(client, model, stream):
    asked = {"model": model, "tools": [TOOL], "tool_choice": "required"}
    asked["parallel_tool_calls"] = False
    answer = client.responses.create(input="Hello", **asked, stream=stream)
    if stream:
        events = list(answer)
        answer = events[-1].response
        done = next(e for e in events if e.type == "response.function_call_arguments.done")
        assert done.arguments == answer.output[0].arguments
    (call,) = answer.output
    assert call.type == "function_call" and call.name == "weather"
    assert json.loads(call.arguments)["city"] in ("Seoul", "Oslo")
    history = [
        {"role": "user", "content": "Hello"},
        call.model_dump(),
        {"type": "function_call_output", "call_id": call.call_id, "output": "3 degrees"},
    ]
    # The dummy model may end its turn at any token, the first one included.
    asked = {"model": model, "input": history, "max_output_tokens": 4}
    assert any(client.responses.create(**asked).output_text for _ in range(8))


def test_tools_of_other_servers_are_left_out(client, model):
    asked = {"model": model, "input": "Hello", "max_output_tokens": 8, "temperature": 0}
    hosted = [
        {"type": "web_search"},
        {"type": "mcp", "server_label": "x", "server_url": "https://x"},
    ]
    with_all = client.responses.create(tools=[*hosted, TOOL], **asked)
    alone = client.responses.create(tools=[TOOL], **asked)
    assert with_all.output_text == alone.output_text
    assert with_all.usage.input_tokens == alone.usage.input_tokens
    assert [tool.type for tool in with_all.tools] == ["function"]  # what is left is said
    choice = {"type": "allowed_tools", "mode": "required"}
    choice["tools"] = [{"type": "web_search"}, {"type": "function", "name": "weather"}]
    answer = client.responses.create(
        model=model, input="Hello", tools=[*hosted, TOOL], tool_choice=choice
    )
    assert {item.type for item in answer.output} == {"function_call"}


def test_responses_with_logprobs(client, model):
    asked = {"model": model, "input": "Hello", "max_output_tokens": 6, "temperature": 0}
    asked |= {"top_logprobs": 2, "include": ["message.output_text.logprobs"]}
    part = client.responses.create(**asked).output[0].content[0]
    assert part.logprobs and all(len(token.top_logprobs) == 2 for token in part.logprobs)
    assert "".join(token.token for token in part.logprobs) == part.text
    events = list(client.responses.create(**asked, stream=True))
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert [token.token for event in deltas for token in event.logprobs] == [
        token.token for token in part.logprobs
    ]


def test_the_tokens_of_an_input_are_counted(client, model):
    asked = {"model": model, "input": "Hello", "instructions": "Be brief."}
    counted = client.post("/responses/input_tokens", body=asked, cast_to=object)
    answer = client.responses.create(**asked, max_output_tokens=2)
    assert counted["input_tokens"] == answer.usage.input_tokens
    assert counted["object"] == "response.input_tokens"


@pytest.fixture(scope="module")
def stateful(start, tmp_path_factory) -> openai.OpenAI:
    """A client of a server whose users have a folder for files."""
    return client_with_data(start, f'fs_data_dir = "{tmp_path_factory.mktemp("data")}"')


def client_with_data(start, config: str) -> openai.OpenAI:
    return client_of(with_openai(start(config=f"[runtime]\n{config}\n")))


def test_a_response_goes_on_from_a_stored_one(stateful, model):
    asked = {"model": model, "max_output_tokens": 8, "temperature": 0}
    first = stateful.responses.create(input="Hello", **asked)
    assert stateful.responses.retrieve(first.id).output_text == first.output_text
    second = stateful.responses.create(input="Why?", previous_response_id=first.id, **asked)
    assert second.previous_response_id == first.id
    history = [
        {"role": "user", "content": "Hello"},
        *(item.model_dump() for item in first.output),
        {"role": "user", "content": "Why?"},
    ]
    whole = stateful.responses.create(input=history, store=False, **asked)
    assert second.output_text == whole.output_text
    assert second.usage.input_tokens == whole.usage.input_tokens
    with pytest.raises(openai.NotFoundError):
        stateful.responses.retrieve(whole.id)
    *_, last = stateful.responses.create(
        input="And?", previous_response_id=second.id, stream=True, **asked
    )
    third = stateful.responses.retrieve(last.response.id)
    assert third.usage.input_tokens > second.usage.input_tokens
    stateful.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        stateful.responses.retrieve(first.id)
    for gone in (first.id, "resp_1", "../../etc/passwd", "resp_../x"):
        with pytest.raises(openai.BadRequestError) as refused:
            stateful.responses.create(input="Why?", previous_response_id=gone, **asked)
        assert refused.value.code == "previous_response_not_found"


def test_a_stored_response_is_not_streamed(stateful, model):
    """The package would see a stream without any event."""
    stored = stateful.responses.create(model=model, input="Hello", max_output_tokens=4)
    with pytest.raises(openai.BadRequestError, match="cannot be streamed"):
        stateful.responses.retrieve(stored.id, stream=True)
    assert stateful.responses.retrieve(stored.id).output_text == stored.output_text


def test_the_input_items_of_a_response(stateful, model):
    asked = {"model": model, "max_output_tokens": 4}
    first = stateful.responses.create(input="Hello", **asked)
    (item,) = stateful.responses.input_items.list(first.id).data
    assert item.role == "user" and item.content[0].text == "Hello" and item.id
    more = [{"role": "user", "content": f"text {at}"} for at in range(4)]
    second = stateful.responses.create(input=more, previous_response_id=first.id, **asked)
    listed = stateful.responses.input_items.list(second.id, order="asc", limit=2)
    assert len(listed.data) == 2 and listed.has_more
    texts = [part.text for item in listed for part in item.content]  # the package asks for more
    said = first.output[0].content[0].text
    assert texts == ["Hello", said, *(item["content"] for item in more)]
    newest = stateful.responses.input_items.list(second.id).data[0]
    assert newest.content[0].text == "text 3"
    for query in ({"limit": 0}, {"order": "up"}, {"after": "nothing"}):
        with pytest.raises(openai.BadRequestError) as refused:
            stateful.responses.input_items.list(second.id, **query)
        assert refused.value.param == next(iter(query))
    with pytest.raises(openai.NotFoundError):
        stateful.responses.input_items.list("resp_1")
    with pytest.raises(openai.BadRequestError, match="background"):
        stateful.responses.cancel(second.id)


def test_references_to_items(stateful, model):
    """A reference stands for an item that a stored response has answered, or has said."""
    asked = {"model": model, "max_output_tokens": 4, "temperature": 0}
    first = stateful.responses.create(input="Hello", **asked)
    (item,) = stateful.responses.input_items.list(first.id).data
    more = {"role": "user", "content": "Why?"}
    same = stateful.responses.create(input=[*more_of(item, first), more], **asked)
    for kind in ({"type": "item_reference"}, {}):
        given = [{**kind, "id": item.id}, {**kind, "id": first.output[0].id}, more]
        answer = stateful.responses.create(input=given, **asked)
        assert answer.usage.input_tokens == same.usage.input_tokens
        assert answer.output_text == same.output_text
    # An item of the response that this one goes on from is there already.
    given = [{"type": "item_reference", "id": first.output[0].id}, more]
    answer = stateful.responses.create(input=given, previous_response_id=first.id, **asked)
    assert answer.usage.input_tokens == same.usage.input_tokens
    (listed,) = [
        item for item in stateful.responses.input_items.list(answer.id) if item.role == "assistant"
    ]
    assert listed.content[0].text == first.output_text
    for unknown in ("msg_1", "x", "resp_../x", 5):
        with pytest.raises(openai.NotFoundError, match="not found") as refused:
            stateful.responses.create(input=[{"type": "item_reference", "id": unknown}], **asked)
        assert refused.value.param == "input[0]"


def more_of(item, response) -> list[dict[str, object]]:
    return [item.model_dump(), *(said.model_dump() for said in response.output)]


def test_errors_name_the_item_of_the_request(stateful, model):
    asked = {"model": model, "max_output_tokens": 4, "instructions": "Be brief."}
    first = stateful.responses.create(input="Hello", **asked)
    robot = [{"role": "user", "content": "a"}, {"role": "robot", "content": "b"}]
    with pytest.raises(openai.BadRequestError) as refused:
        stateful.responses.create(input=robot, previous_response_id=first.id, **asked)
    assert refused.value.param == "input[1].role"
    output = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
    with pytest.raises(openai.BadRequestError, match="call_1") as refused:
        stateful.responses.create(input=[*robot[:1], output], **asked)
    assert refused.value.param == "input[1].call_id"


def test_a_response_that_cannot_be_stored_says_so(start, tmp_path, model):
    client = client_with_data(start, f'fs_data_dir = "{tmp_path}"\nfs_data_quota_mb = 1')
    asked = {"model": model, "input": "Hello", "max_output_tokens": 8, "temperature": 0}
    first = client.responses.create(**asked)
    assert first.to_dict()["store"] is True
    (kept,) = tmp_path.rglob(f"{first.id}.json")
    folder = kept.parents[1]
    used = sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
    filler = folder / "filler"
    filler.write_bytes(b"x" * ((1 << 20) - used - 4096))
    time.sleep(1)  # until the first process has ended: it had measured the folder before
    second = client.responses.create(**asked)
    assert second.output_text == first.output_text and second.to_dict()["store"] is False
    *_, last = client.responses.create(**asked, stream=True)
    assert last.response.to_dict()["store"] is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(second.id)
    assert list(kept.parent.iterdir()) == [kept]
    filler.unlink()
    assert client.responses.create(**asked).to_dict()["store"] is True


def test_responses_as_json(client, model):
    form = {"format": {"type": "json_schema", "name": "city", "schema": CITY}}
    answer = client.responses.create(model=model, input="Hello", text=form, max_output_tokens=200)
    assert json.loads(answer.output_text)["city"] in ("Seoul", "Oslo")


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"input": 5}, "input"),
        ({"input": []}, "input"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0]"),
        ({"tools": [{"name": "x"}]}, "tools"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"reasoning": {"effort": 5}}, "reasoning.effort"),
        ({"text": {"format": {"type": "poem"}}}, "text.format"),
        ({"text": 5}, "text"),
        ({"metadata": "x"}, "metadata"),
        ({"reasoning": "much"}, "reasoning"),
    ],
)
def test_bad_responses(client, model, change, param):
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**{"model": model, "input": "Hello", **change})
    assert refused.value.param == param
    if param in ("background", "conversation", "prompt"):
        assert refused.value.code == "unsupported_parameter"
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=model, input="x", extra_body={"unheard_of": 1})
    assert refused.value.code == "unknown_parameter"
