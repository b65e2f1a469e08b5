"""`/v1/embeddings`, and adapters as models of the OpenAI API, as the official client sees them."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import struct

import anthropic
import httpx2 as httpx
import openai
import pytest
from conftest import ROOT, Serving, client_of, install_once, key_of
from raw_client import RawClient

CHAT = [{"role": "user", "content": "Hello"}]
TEXTS = ["A cat sleeps.", "A kitten naps.", "The tax is due in April."]


# --- embeddings


def test_a_text_becomes_a_vector_of_length_one(client, model):
    made = client.embeddings.create(model=model, input=TEXTS[0], encoding_format="float")
    assert made.object == "list" and made.model == model
    (entry,) = made.data
    assert entry.object == "embedding" and entry.index == 0
    assert math.hypot(*entry.embedding) == pytest.approx(1, abs=1e-5)
    assert made.usage.prompt_tokens == made.usage.total_tokens > 0


def test_lists_of_texts_and_of_tokens(client, model):
    made = client.embeddings.create(model=model, input=TEXTS, encoding_format="float")
    assert [entry.index for entry in made.data] == [0, 1, 2]
    vectors = [entry.embedding for entry in made.data]
    assert vectors[0] != vectors[1] != vectors[2]
    alone = client.embeddings.create(model=model, input=TEXTS[1], encoding_format="float")
    assert alone.data[0].embedding == vectors[1]
    # The tokens of the dummy model are bytes.
    tokens = [list(text.encode()) for text in TEXTS]
    assert made.usage.prompt_tokens == sum(map(len, tokens))
    by_tokens = client.embeddings.create(model=model, input=tokens, encoding_format="float")
    assert [entry.embedding for entry in by_tokens.data] == vectors
    one = client.embeddings.create(model=model, input=tokens[2], encoding_format="float")
    assert one.data[0].embedding == vectors[2]


def test_a_long_text(client, model):
    """A long text is computed in pieces."""
    text = "The cat sleeps. " * 100
    made = client.embeddings.create(model=model, input=text, encoding_format="float")
    assert made.usage.prompt_tokens == len(text)
    assert math.hypot(*made.data[0].embedding) == pytest.approx(1, abs=1e-5)
    other = client.embeddings.create(model=model, input=text + "x", encoding_format="float")
    assert other.data[0].embedding != made.data[0].embedding


def test_base64_holds_the_same_numbers(client, model):
    """The package asks for base64 by itself, and decodes it."""
    plain = client.embeddings.create(model=model, input=TEXTS, encoding_format="float")
    decoded = client.embeddings.create(model=model, input=TEXTS)
    coded = client.embeddings.create(model=model, input=TEXTS, encoding_format="base64")
    for entry, same, text in zip(plain.data, decoded.data, coded.data, strict=True):
        packed = base64.b64decode(text.embedding)
        numbers = struct.unpack(f"<{len(packed) // 4}f", packed)
        assert entry.embedding == pytest.approx(numbers, abs=1e-6)
        assert same.embedding == pytest.approx(numbers, abs=1e-6)


def test_fewer_dimensions(client, model):
    asked = {"model": model, "input": TEXTS[0], "encoding_format": "float"}
    whole = client.embeddings.create(**asked).data[0].embedding
    cut = client.embeddings.create(**asked, dimensions=3).data[0].embedding
    length = math.hypot(*whole[:3])
    assert cut == pytest.approx([number / length for number in whole[:3]], abs=1e-6)
    assert client.embeddings.create(**asked, dimensions=len(whole)).data[0].embedding == whole
    with pytest.raises(openai.BadRequestError, match=str(len(whole))) as refused:
        client.embeddings.create(**asked, dimensions=len(whole) + 1)
    assert refused.value.param == "dimensions"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": [[1], []]}, "input"),
        ({"input": [1, "a"]}, "input"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": [-1]}, "input"),
        ({"input": [10**9]}, "input"),
        ({"input": [1.5]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a" * 8193}, "input"),
        ({"input": None}, "input"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": "many"}, "dimensions"),
        ({"model": None}, "model"),
        ({"unheard_of": 1}, "unheard_of"),
    ],
)
def test_bad_requests_for_embeddings(api, model, change, param):
    body = {"model": model, "input": "a", **change}
    answer = httpx.post(f"http://127.0.0.1:{api.port}/v1/embeddings", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == param and error["type"] == "invalid_request_error"


def test_embeddings_of_an_unknown_model(client):
    with pytest.raises(openai.NotFoundError) as refused:
        client.embeddings.create(model="nothing", input="a")
    assert refused.value.code == "model_not_found"


# --- adapters

SCRIPT = (ROOT / "tests/e2e/adapter-script/Pie.toml").read_text()
TUNED = (
    {"do": "initialize", "rank": 2, "alpha": 4.0, "population": 4, "mu": 0.5, "sigma": 0.25},
    {"do": "update", "scores": [4, 1, 3, 2], "seeds": [7, -7, 8, -8], "max_sigma": 1.0},
)


@pytest.fixture(scope="module")
def guarded(start) -> tuple[Serving, dict[str, str]]:
    """A server with authentication, where ada has a tuned adapter and bob has none; their keys."""
    serving = start(config="[auth]\nenabled = true\n")
    keys = {user: key_of(serving, user) for user in ("ada", "bob")}

    async def prepare() -> None:
        async with await RawClient.connect(serving.uri, None) as client:
            await client.ask("auth_by_token", token=serving.token)
            for guest, manifest in (
                ("openai", (ROOT / "inferlets/openai/Pie.toml").read_text()),
                ("e2e-adapter-script", SCRIPT),
            ):
                await install_once(client, guest, manifest)
        async with await RawClient.connect(serving.uri, None) as client:
            await client.ask("auth_by_token", token=keys["ada"])
            steps = [{"do": "create", "name": "pirate"}, *TUNED]
            process = await client.launch("adapter-script", json.dumps({"steps": steps}))
            ended = await client.until_end(process)
            assert ended[-1][0] == "return", ended

    asyncio.run(prepare())
    return serving, keys


def test_only_its_owner_has_an_adapter_as_a_model(guarded):
    serving, keys = guarded
    ada, bob = (client_of(serving, keys[user]) for user in ("ada", "bob"))
    listed = {model.id: model for model in ada.models.list()}
    (base,) = [model.id for model in bob.models.list()]
    assert set(listed) == {base, "pirate"}
    assert listed["pirate"].parent == base and listed["pirate"].owned_by == "ada"
    assert ada.models.retrieve("pirate") == listed["pirate"]

    def said(model: str) -> str:
        answer = ada.chat.completions.create(
            model=model, messages=CHAT, max_tokens=12, temperature=0
        )
        assert answer.model == model
        return answer.choices[0].message.content

    assert said("pirate") != said(base)
    vectors = [
        ada.embeddings.create(model=name, input="Hello").data[0].embedding
        for name in (base, "pirate")
    ]
    assert vectors[0] != vectors[1]

    for refused in (
        lambda: bob.models.retrieve("pirate"),
        lambda: bob.chat.completions.create(model="pirate", messages=CHAT),
        lambda: bob.completions.create(model="pirate", prompt="Hello"),
        lambda: bob.responses.create(model="pirate", input="Hello"),
        lambda: bob.embeddings.create(model="pirate", input="Hello"),
        lambda: ada.chat.completions.create(model="../pirate", messages=CHAT),
        lambda: ada.chat.completions.create(model="x" * 5000, messages=CHAT),
        lambda: ada.chat.completions.create(model="", messages=CHAT),
    ):
        with pytest.raises(openai.NotFoundError) as error:
            refused()
        assert error.value.code == "model_not_found"


def test_the_anthropic_package_sees_adapters_too(guarded):
    serving, keys = guarded
    root = f"http://127.0.0.1:{serving.port}"
    client = anthropic.Anthropic(base_url=root, api_key=keys["ada"], max_retries=0)
    assert "pirate" in [model.id for model in client.models.list()]
    answer = client.messages.create(model="pirate", max_tokens=4, messages=CHAT)
    assert answer.model == "pirate" and answer.content
    stranger = anthropic.Anthropic(base_url=root, api_key=keys["bob"], max_retries=0)
    with pytest.raises(anthropic.NotFoundError):
        stranger.messages.create(model="pirate", max_tokens=4, messages=CHAT)
