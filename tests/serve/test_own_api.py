"""A changed copy of inferlets/openai, built and served as the guide says."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import httpx2 as httpx
import openai
import pytest
from conftest import ROOT, Serving
from openai_requests import WEATHER
from raw_client import RawClient
from test_new_http_projects import bakery
from test_openai_answers import CONFIG, say

# The model writes a call, of which a stream sends nothing until it is complete. It is so long that
# this takes many milliseconds.
CALL = {"name": "weather", "arguments": {"city": "Oslo" * 1_000, "degrees": 3}}
SAID = f"<tool_call>\n{json.dumps(CALL)}\n</tool_call>"
MAX_TOKENS = 6_000


@pytest.fixture(scope="module")
def own(start, tmp_path_factory) -> Serving:
    """A server of a copy that sends pings after a millisecond of silence, not after 15 seconds."""
    folder: Path = tmp_path_factory.mktemp("own")
    project, component = folder / "my-openai", folder / "my-openai.wasm"
    shutil.copytree(
        ROOT / "inferlets/openai", project, ignore=shutil.ignore_patterns("target", "build")
    )
    for name, old, new in (
        ("Pie.toml", 'name = "openai"', 'name = "my-openai"'),
        ("src/reply.rs", "Duration::from_secs(15)", "Duration::from_millis(1)"),
    ):
        text = (project / name).read_text()
        assert text.count(old) == 1
        (project / name).write_text(text.replace(old, new))
    bakery("build", project, "-o", component)
    script = folder / "answers.toml"
    script.write_text(f"[[answer]]\nrepeat = true\nsay = {json.dumps(SAID)}\n")
    serving = start(config=CONFIG.format(script=script).replace("100", "1000"))

    async def install():
        async with await RawClient.connect(serving.uri) as client:
            await client.install(component.read_bytes(), (project / "Pie.toml").read_text())

    asyncio.run(install())
    return serving


def test_a_changed_copy_is_served_under_its_own_name(own):
    base = f"http://127.0.0.1:{own.port}/apps/my-openai/v1"
    client = openai.OpenAI(base_url=base, api_key="unused", max_retries=0, timeout=300)
    model = client.models.list().data[0].id
    answer = client.chat.completions.create(
        model=model, messages=say("Hello"), tools=[WEATHER], temperature=0, max_tokens=MAX_TOKENS
    )
    assert answer.choices[0].message.tool_calls[0].function.name == "weather"


def test_a_silent_stream_sends_pings(own):
    base = f"http://127.0.0.1:{own.port}/apps/my-openai/v1"
    model = httpx.get(f"{base}/models").json()["data"][0]["id"]
    asked = {"model": model, "stream": True, "temperature": 0}
    spoken = {**asked, "messages": say("Hello"), "max_tokens": MAX_TOKENS}
    function = {"type": "function", **WEATHER["function"]}
    tool = {"name": "weather", "input_schema": WEATHER["function"]["parameters"]}
    for route, body, ping in (
        ("chat/completions", {**spoken, "tools": [WEATHER]}, ": ping\n\n"),
        ("responses", {**asked, "input": "Hello", "tools": [function]}, ": ping\n\n"),
        ("messages", {**spoken, "tools": [tool]}, 'event: ping\ndata: {"type": "ping"}\n\n'),
    ):
        answer = httpx.post(f"{base}/{route}", json=body, timeout=300)
        assert answer.status_code == 200, answer.text
        assert ping in answer.text and "weather" in answer.text, route
    client = openai.OpenAI(base_url=base, api_key="unused", max_retries=0, timeout=300)
    chunks = list(client.chat.completions.create(**spoken, tools=[WEATHER]))  # they are skipped
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
