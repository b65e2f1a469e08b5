"""The page at the server's root, in a real browser: each user sees their own things."""

from __future__ import annotations

import json
import time

import pytest
from conftest import ROOT, Serving, component, key_of
from page import connected, install, running, visiting
from raw_client import LIMIT_S

GUARDED = """
[auth]
enabled = true

[mcp.everybodys-server]
command = "true"

[mcp.marys-tools]
command = "true"
users = ["mary"]
"""


@pytest.fixture(scope="module")
def open_server(start) -> Serving:
    server = start()
    install(server)
    return server


@pytest.fixture(scope="module")
def guarded(start) -> Serving:
    server = start(config=GUARDED)
    install(server, server.token)
    return server


@pytest.fixture
def visit(chromium):
    """Opens pages. None may complain."""
    with visiting(chromium) as go:
        yield go


def test_without_a_login_there_is_no_data(guarded, visit):
    page = visit(guarded)
    page.sees("#login", "Paste an API key")
    for view in ("live", "playground", "library"):
        page.page.goto(f"{page.root}#{view}")
        assert not page.page.is_visible(f"#view-{view}")
    page.page.fill("#key", "wrong")
    page.page.get_by_role("button", name="Log in").click()
    page.sees("#login-error", "does not know this key")
    assert not page.page.is_visible("#views") and page.text("#state") == "Not logged in"


def test_two_users_see_their_own_things_only(guarded, visit):
    keys = {user: key_of(guarded, user) for user in ("ada", "grace")}
    ada, grace = visit(guarded), visit(guarded)
    with running(guarded, token=keys["ada"], word="adasword") as (process, _):
        for page, user in ((ada, "ada"), (grace, "grace")):
            page.page.fill("#key", keys[user])
            page.page.get_by_role("button", name="Log in").click()
            page.sees("#user", user)
        ada.sees("#processes", "watched")
        ada.page.click("#processes button")
        ada.sees("#stream", "adasword")
        ada.sees("#map-legend", "watched")
        # Grace sees that pages are in use, but not by whom.
        grace.sees("#map-legend", "other users")
        grace.sees("#processes", "Nothing of yours runs")
        everything = grace.page.content()
        for secret in ("adasword", process, "watched"):
            assert secret not in everything
        grace.view("Library")
        grace.sees("#programs", "hello@0.1.0")  # every user sees the installed programs

        with connected(guarded, token=keys["grace"]) as (client, on):
            seen = on(client.ask("query", subject="watch", record=""))
            assert "adasword" not in seen and process not in seen
            refused = on(client.request("query", subject="output", record=f"{process} 0"))
            assert not refused["ok"]
    ada.page.get_by_role("button", name="Log out").click()
    ada.sees("#login", "Paste an API key")
    assert "adasword" not in ada.page.content()
    ada.page.reload()
    ada.sees("#login", "Paste an API key")


def test_pages_of_an_inferlet_that_has_ended_belong_to_nobody_else(open_server):
    """The picture of the pages may be older than the list of what runs. One user is alone here."""
    others, own = 2, 4

    def totals() -> dict[int, int]:
        with connected(open_server) as (client, on):
            seen = json.loads(on(client.ask("query", subject="watch", record="")))
        return dict(seen["models"][0].get("view", {}).get("totals", []))

    for _ in range(5):
        with running(open_server):
            end = time.monotonic() + LIMIT_S
            while max(totals(), default=0) < own:
                assert time.monotonic() < end
        assert all(others not in totals() for _ in range(10))


def test_the_library_lists_the_users_own_things(guarded, visit):
    mary, dorothy = visit(guarded), visit(guarded)
    keys = [key_of(guarded, user) for user in ("mary", "dorothy")]
    tuned = {"do": "initialize", "rank": 2, "alpha": 4.0, "population": 4, "mu": 0.5, "sigma": 0.25}
    steps = [{"do": "create", "name": "marys-adapter"}, tuned]
    with connected(guarded, token=keys[0]) as (client, on):
        asked = {"prompt": "hello", "name": "marys-snapshot", "max_tokens": 8}
        for program, given in (("remember", asked), ("adapter-script", {"steps": steps})):
            ended = on(client.until_end(on(client.launch(program, json.dumps(given)))))
            assert ended[-1][0] == "return", ended
        on(client.ask("register_mcp_server", name="marys-server", transport="stdio"))
        for page, key in zip((mary, dorothy), keys, strict=True):
            page.page.fill("#key", key)
            page.page.get_by_role("button", name="Log in").click()
            page.view("Library")
            page.sees("#programs", "remember@0.1.0")
        for part, name in (("snapshots", "snapshot"), ("adapters", "adapter"), ("mcp", "server")):
            mary.sees(f"#{part}", f"marys-{name}")
        mary.sees("#mcp", "one of your clients")
        assert "marys" not in dorothy.page.content()
    for page in (mary, dorothy):
        page.page.get_by_role("button", name="Refresh").click()
        page.sees("#mcp", "everybodys-server")  # a server from the config, which all users have
        page.sees("#mcp", "the engine's config")
    mary.sees("#mcp", "marys-tools")
    assert "marys" not in dorothy.page.content()
    gone = "() => !document.querySelector('#mcp').innerText.includes('marys-server')"
    mary.page.wait_for_function(gone)  # the client of this server has disconnected


def test_a_daemon_is_restarted_and_stopped(open_server, visit):
    manifest = (ROOT / "tests/serve/http/rust/Pie.toml").read_text()
    page = visit(open_server)
    page.view("Library")
    page.sees("#daemons", "You have no daemons")
    with connected(open_server) as (client, on):
        on(client.install(component("serve-http-rust"), manifest))
        asked = {"port": 0, "inferlet": "http-echo", "input": "{}"}
        on(client.ask("launch_daemon", **asked))
        on(client.install(component("serve-http-rust"), manifest.replace("0.1.0", "0.1.1")))
        page.page.get_by_role("button", name="Refresh").click()
        page.sees("#daemons", "http-echo@0.1.0")
        page.page.get_by_role("button", name="Restart http-echo@0.1.0").click()
        page.sees("#daemons", "http-echo@0.1.1")
        page.page.get_by_role("button", name="Stop http-echo@0.1.1").click()
        page.sees("#daemons", "You have no daemons")
        assert json.loads(on(client.ask("list_processes"))) == []


def test_the_library_without_mcp_servers(open_server, visit):
    page = visit(open_server)
    page.view("Library")
    page.sees("#mcp", "None of your connected clients offers an MCP server")


def test_a_reload_keeps_the_login_of_the_tab_only(guarded, visit):
    page = visit(guarded)
    page.page.fill("#key", guarded.token)
    page.page.get_by_role("button", name="Log in").click()
    page.sees("#user", "internal")
    page.page.reload()
    page.sees("#user", "internal")
    assert page.page.evaluate("localStorage.length + document.cookie.length") == 0


def test_without_authentication_a_user_is_chosen(open_server, visit):
    page = visit(open_server)
    page.sees("#user", "local")
    with running(open_server, user="ada"):
        page.page.get_by_role("button", name="Switch user").click()
        page.page.fill("#name", "ada")
        page.page.get_by_role("button", name="Watch").click()
        page.sees("#user", "ada")
        page.sees("#processes", "watched")
