"""Saved contexts and shared prefixes, seen by clients of a server."""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.request
from pathlib import Path

import configuration
import pytest
from conftest import ROOT, Serving, install_once
from raw_client import LIMIT_S, RawClient

MANIFEST = (ROOT / "inferlets/remember/rust/Pie.toml").read_text()
LONG = "A long story. " * 100  # about 1,400 tokens of the dummy model


async def say(server: Serving, user: str, prompt: str, name: str = "chat") -> tuple[int, int]:
    """Runs one turn. Returns the numbers of remembered and of saved tokens."""
    async with await RawClient.connect(server.uri, user) as client:
        await install_once(client, "remember-rust", MANIFEST)
        given = json.dumps({"prompt": prompt, "name": name, "max_tokens": 4})
        process = await client.launch("remember@0.1.0", given)
        event, text = (await client.until_end(process))[-1]
        assert event == "return", text
        found = re.search(r"\[(\d+) tokens remembered, (\d+) saved\]", text)
        assert found, text
        return int(found[1]), int(found[2])


def metric(server: Serving, name: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=LIMIT_S) as page:
        found = re.search(rf"^{name} (\d+)$", page.read().decode(), re.M)
    assert found, name
    return int(found[1])


def files(server: Serving) -> list[Path]:
    return sorted(server.home.rglob("*.snapshot"))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_conversation_survives_a_restart_and_is_not_computed_again(start, on, how):
    # A context that is suspended on purpose computes the rest of its last page again.
    server = start(config="[[model]]\n[model.scheduler]\nsuspend_every_steps = 0\n")
    known, saved = on(say(server, "ada", LONG))
    assert known == 0
    assert saved > 1000
    assert metric(server, "pie_snapshots_saved_total") == 1
    server.stop(how)
    again = start(home=server.home)
    known, longer = on(say(again, "ada", "And then?"))
    assert known == saved
    assert metric(again, "pie_tokens_total") <= longer - saved
    assert metric(again, "pie_pages_restored_total") >= saved // configuration.page_tokens()


def test_users_have_their_own(start, on):
    server = start()
    _, ada = on(say(server, "ada", "I am Ada."))
    assert on(say(server, "bob", "Who am I?"))[0] == 0
    assert on(say(server, "ada", "Who am I?"))[0] == ada
    assert len(files(server)) == 2


def test_equal_beginnings_are_shared_by_one_user_only(start, on):
    server = start()
    on(say(server, "ada", LONG, "one"))
    # A context that was suspended finds its own pages. Bob's context finds no more pages than Ada's
    # found when it ran alone.
    alone = metric(server, "pie_prefix_tokens_saved_total")
    on(say(server, "bob", LONG, "one"))
    saved = metric(server, "pie_prefix_tokens_saved_total")
    assert saved == 2 * alone
    computed = metric(server, "pie_tokens_total")
    on(say(server, "ada", LONG, "two"))
    assert metric(server, "pie_prefix_tokens_saved_total") >= saved + 1000
    assert metric(server, "pie_tokens_total") < computed + 100
    deadline = time.monotonic() + LIMIT_S
    while metric(server, "pie_pages_used") > 0:  # the process ends before its pages are freed
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert metric(server, "pie_pages_cached") > 100


@pytest.mark.parametrize(
    ("config", "shared"),
    [('prefix_cache_scope = "engine"', True), ("prefix_cache = false", False)],
)
def test_sharing_can_be_widened_and_switched_off(start, on, config: str, shared: bool):
    server = start(config=f"[runtime]\n{config}\n")
    on(say(server, "ada", LONG, "one"))
    on(say(server, "ada" if not shared else "bob", LONG, "two"))
    assert (metric(server, "pie_prefix_tokens_saved_total") > 1000) == shared


def test_no_snapshot_keeps_them_in_memory(start, on):
    server = start("--no-snapshot")
    _, saved = on(say(server, "ada", "Hello."))
    assert on(say(server, "ada", "Again."))[0] == saved
    assert metric(server, "pie_snapshots") == 1
    assert files(server) == []
    server.stop()
    again = start("--no-snapshot", home=server.home)
    assert on(say(again, "ada", "Hello?"))[0] == 0
