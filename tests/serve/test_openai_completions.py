"""`/v1/completions` of the OpenAI API, as the official client of it sees it."""

from __future__ import annotations

import openai
import pytest


def test_completions(client, model):
    answer = client.completions.create(model=model, prompt="Once upon", max_tokens=6, temperature=0)
    assert answer.object == "text_completion" and answer.choices[0].text
    echo = client.completions.create(
        model=model, prompt="Once upon", max_tokens=6, temperature=0, echo=True
    )
    assert echo.choices[0].text == "Once upon" + answer.choices[0].text
    chunks = client.completions.create(
        model=model, prompt="Once upon", max_tokens=6, temperature=0, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in chunks) == answer.choices[0].text


def test_completions_of_several_prompts(client, model):
    asked = {"model": model, "max_tokens": 6, "temperature": 0}
    prompts = ["Once upon", "In the end"]
    alone = [client.completions.create(prompt=text, **asked).choices[0].text for text in prompts]
    # The tokens of the dummy model are bytes.
    for given in (prompts, [list(text.encode()) for text in prompts]):
        answer = client.completions.create(prompt=given, **asked)
        assert [(c.index, c.text) for c in answer.choices] == list(enumerate(alone))
        assert answer.usage.prompt_tokens == sum(map(len, prompts))
    one = client.completions.create(prompt=list(prompts[1].encode()), **asked)
    assert one.choices[0].text == alone[1]
    texts = ["", "", "", ""]
    for chunk in client.completions.create(prompt=prompts, n=2, stream=True, **asked):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [alone[0], alone[0], alone[1], alone[1]]


def test_logprobs_of_completions(client, model):
    asked = {"model": model, "max_tokens": 5, "temperature": 0, "logprobs": 2}
    (choice,) = client.completions.create(prompt="Once", **asked).choices
    scored = choice.logprobs
    assert "".join(scored.tokens) == choice.text
    assert scored.text_offset == [len("Once") + i for i in range(len(scored.tokens))]
    for word, logprob, top in zip(
        scored.tokens, scored.token_logprobs, scored.top_logprobs, strict=True
    ):
        assert len(top) == 2 and top[word] == logprob == max(top.values())
    # The same tokens as a part of a prompt get the same scores.
    whole = client.completions.create(
        model=model, prompt="Once" + choice.text, max_tokens=0, echo=True, logprobs=1
    ).choices[0]
    assert whole.text == "Once" + choice.text and whole.finish_reason == "length"
    assert whole.logprobs.tokens == list(whole.text)
    assert whole.logprobs.text_offset == list(range(len(whole.text)))
    assert whole.logprobs.token_logprobs[0] is None and whole.logprobs.top_logprobs[0] is None
    assert whole.logprobs.token_logprobs[4:] == pytest.approx(scored.token_logprobs, abs=1e-3)
    chunks = list(client.completions.create(prompt="Once", echo=True, stream=True, **asked))
    words = [w for c in chunks if c.choices[0].logprobs for w in c.choices[0].logprobs.tokens]
    assert words == [*"Once", *scored.tokens]


def test_the_best_of_several_completions(client, model):
    asked = {"model": model, "prompt": "Once", "max_tokens": 6, "temperature": 1.5, "seed": 3}
    all_of_them = client.completions.create(**asked, n=4, logprobs=0)

    def quality(choice) -> float:
        return sum(choice.logprobs.token_logprobs) / max(len(choice.logprobs.token_logprobs), 1)

    best = max(all_of_them.choices, key=quality)
    (choice,) = client.completions.create(**asked, n=1, best_of=4).choices
    assert choice.text == best.text and choice.logprobs is None


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a", ""]}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": [10**9]}, "prompt"),
        ({"prompt": ["a"] * 257}, "prompt"),
        ({"prompt": ["a"] * 256, "n": 5}, "prompt"),
        ({"suffix": "b"}, "suffix"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"logprobs": 21}, "logprobs"),
        ({"max_tokens": -1}, "max_tokens"),
    ],
)
def test_bad_completions(client, model, change, param):
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(**{"model": model, "prompt": "a", "max_tokens": 2, **change})
    assert refused.value.param == param
