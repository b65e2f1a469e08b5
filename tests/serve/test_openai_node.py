"""The OpenAI API, tested with its official JavaScript client."""

from __future__ import annotations

import hashlib
import json
import subprocess

import pytest
from conftest import ROOT

from bakery.toolchain import cache_dir

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
