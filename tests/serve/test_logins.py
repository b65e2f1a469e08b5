"""Which routes and messages need a login. The lists come from the server's own tables, so that a
new route or message fails until its login is decided here."""

from __future__ import annotations

import http.client
import re

import pytest
from conftest import ROOT
from raw_client import LIMIT_S, RawClient

MESSAGES = re.findall(r'MessageType\{"(\w+)"', (ROOT / "src/server/message.h").read_text())
ROUTES = dict(
    re.findall(r'HttpRoute\{"([^"]+)", Login::(\w+)\}', (ROOT / "src/server/http.h").read_text())
)

BEFORE_LOGIN = {"auth_identify", "auth_prove", "auth_by_token"}
# The answers to a stranger, and to a client with the server's token, while authentication is on.
EXPECTED = {
    "/": ("kNone", 200, 200),
    "/page/": ("kNone", 404, 404),  # the folder is no file; its files are below
    "/healthz": ("kNone", 200, 200),
    "/metrics": ("kServerToken", 401, 200),
    "/apps/": ("kApiKey", 401, 404),  # no inferlet has an empty name
}
# Paths that are no routes. Strangers learn nothing, not even that.
ELSEWHERE = ["/other", "/metrics/", "/Metrics", "/healthz/..", "/v1/models", "/apps/nobody/x"]

# A message of any type finds all its fields here.
FIELDS = {
    "username": "ada", "signature": "AAAA", "token": "x", "name": "a", "version": "0.1.0",
    "subject": "watch", "record": "", "manifest": "", "ok": True, "force_overwrite": True,
    "program_hash": "x", "file_hash": "x", "chunk_index": 0, "total_chunks": 1, "chunk_data": b"1",
    "inferlet": "a", "input": "{}", "capture_outputs": True, "port": 0, "process_id": "p",
    "message": "m", "transport": "stdio", "result": "{}", "corr_id": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def guarded(start):
    return start(config='[auth]\nenabled = true\n[server.routes]\n"/v1" = "openai"\n')


def ask(server, path: str, token: str = "", method: str = "GET") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT_S)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request(method, path, headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_the_tables_are_found():
    assert len(MESSAGES) >= 16 and "query" in MESSAGES
    assert ROUTES.keys() == EXPECTED.keys(), "a new route: say here who may ask for it"


@pytest.mark.parametrize("path", EXPECTED)
def test_a_route(guarded, path):
    login, stranger, known = EXPECTED[path]
    assert ROUTES[path] == login
    assert ask(guarded, path) == stranger
    assert ask(guarded, path, "wrong") == stranger
    assert ask(guarded, path, guarded.token) == known


@pytest.mark.parametrize("path", ELSEWHERE)
def test_every_other_path_needs_a_login(guarded, path):
    for method in ("GET", "POST", "DELETE"):
        assert ask(guarded, path, method=method) == 401


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message(guarded, on, message):
    async def send() -> str:
        client = await RawClient.connect(guarded.uri, user=None)
        if message in BEFORE_LOGIN:
            await client.request(message, **{k: v for k, v in FIELDS.items() if k != "corr_id"})
            await client.close()
            return ""
        await client.send(message, **FIELDS)
        await client.closed.wait()
        assert client.socket.close_code == 1008 and not client.events
        return client.socket.close_reason

    said = on(send())
    assert said == (
        "" if message in BEFORE_LOGIN else f"{message} is not allowed before authentication"
    )


@pytest.mark.parametrize("message", sorted(BEFORE_LOGIN))
def test_what_a_stranger_may_send_is_no_login(guarded, on, message):
    """After each of them the connection still may not ask for anything."""

    async def send() -> str:
        client = await RawClient.connect(guarded.uri, user=None)
        await client.request(message, **{k: v for k, v in FIELDS.items() if k != "corr_id"})
        await client.send("query", corr_id=9, subject="watch", record="")
        await client.closed.wait()
        return client.socket.close_reason

    assert "not allowed before authentication" in on(send())


def test_the_protocol_page_lists_every_message():
    text = (ROOT / "docs/reference/protocol.md").read_text()
    listed = text.split("<!-- messages -->")[1].split("<!-- /messages -->")[0]
    assert re.findall(r"^\| `(\w+)` \|", listed, re.M) == MESSAGES
