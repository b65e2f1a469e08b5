"""The OpenAI API, as the official client of it sees it. It is an inferlet: inferlets/openai."""

from __future__ import annotations

import asyncio

import httpx2 as httpx
import openai
import pytest
from openai_requests import CHAT, counts, metric


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


def test_a_conversation_goes_on(client, model):
    turns = list(CHAT)
    for said in ("And then?", "Why?"):
        answer = client.chat.completions.create(model=model, messages=turns, max_tokens=6)
        turns += [
            {"role": "assistant", "content": answer.choices[0].message.content},
            {"role": "user", "content": [{"type": "text", "text": said}]},
        ]
    assert client.chat.completions.create(model=model, messages=turns, max_tokens=6).choices


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
