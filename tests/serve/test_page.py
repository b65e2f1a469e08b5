"""The page at the server's root, in a real browser: the tests click, and check what is shown."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import subprocess
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import browser
import pytest
from conftest import PIE, ROOT, Serving, component, key_of
from raw_client import LIMIT_S, RawClient

PROGRAMS = {
    "hello-rust": "inferlets/hello/rust/Pie.toml",
    "serve-watched-rust": "tests/serve/watched/rust/Pie.toml",
    "remember-rust": "inferlets/remember/rust/Pie.toml",
    "e2e-adapter-script": "tests/e2e/adapter-script/Pie.toml",
}
GUARDED = """
[auth]
enabled = true

[mcp.everybodys-server]
command = "true"

[mcp.marys-tools]
command = "true"
users = ["mary"]
"""
# Contexts that are not used lose their pages to host memory after every batch.
SWAPPING = """
[[model]]
[model.driver.options]
swap_pool_size = 4096
[model.scheduler]
suspend_every_steps = 1
swap_always = true
"""
SLOW = {"word": "pie", "forks": 3, "pause_s": 0.05}


def install(server: Serving, token: str | None = None) -> None:
    with connected(server, token=token) as (client, on):
        for name, manifest in PROGRAMS.items():
            on(client.install(component(name), (ROOT / manifest).read_text()))


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


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    with browser.opened() as opened:
        yield opened


class Watched:
    """A page, and everything that it complained about."""

    def __init__(self, context, server: Serving) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(browser.LIMIT_MS)
        self.faults: list[str] = []
        self.page.on("console", lambda said: self.faults.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("requestfailed", lambda request: self.faults.append(request.url))
        self.root = f"http://127.0.0.1:{server.port}/"
        self.page.goto(self.root)

    def view(self, name: str) -> None:
        self.page.get_by_role("link", name=name, exact=True).click()

    def sees(self, selector: str, text: str) -> None:
        """Waits until the element has the text."""
        self.page.wait_for_function(
            "([s, t]) => document.querySelector(s)?.innerText.includes(t)", arg=[selector, text]
        )

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)


@pytest.fixture
def visit(chromium):
    """Opens pages, each in a profile of its own. None may complain."""
    contexts, pages = [], []

    def go(server: Serving, **options) -> Watched:
        contexts.append(chromium.new_context(**options))
        pages.append(Watched(contexts[-1], server))
        return pages[-1]

    yield go
    for context in contexts:
        context.close()
    for page in pages:
        assert page.faults == []


@contextmanager
def connected(server: Serving, user: str = "local", token: str | None = None) -> Iterator:
    """Another client of the same server, and what runs its coroutines."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def on(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(LIMIT_S)

    client = on(RawClient.connect(server.uri, None if token else user))
    if token:
        on(client.ask("auth_by_token", token=token))
    try:
        yield client, on
    finally:
        on(client.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def running(server: Serving, user: str = "local", token: str | None = None, **more) -> Iterator:
    """The slow program runs meanwhile, launched by another client."""
    with connected(server, user, token) as (client, on):
        process = on(client.launch("watched", json.dumps({**SLOW, **more})))

        def stop() -> list[tuple[str, str]]:
            """Tells the program to stop, and returns all its events."""
            on(client.ask("signal_process", process_id=process, message="stop"))
            return on(client.until_end(process))

        try:
            yield process, stop
        finally:
            on(client.request("terminate_process", process_id=process))


def get(server: Serving, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT_S)
    connection.putrequest("GET", path, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    result = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    connection.close()
    return result


# --- files ------------------------------------------------------


def test_the_banner_names_the_page(start):
    server = start()
    lines = [server.process.stdout.readline() for _ in range(4)]
    assert any(f"page      http://127.0.0.1:{server.port}/" in line for line in lines), lines


def test_files_have_types_and_tags_and_are_sent_once(open_server):
    status, headers, text = get(open_server, "/")
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    names = re.findall(rb'(?:src|href)="(page/[^"]+)"', text)
    assert b"page/app.js" in names and b"page/style.css" in names
    kinds = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    for name in {name.decode() for name in names} | {"page/pie-client.js"}:
        status, headers, _ = get(open_server, "/" + name)
        assert status == 200 and headers["content-type"].startswith(kinds[name.split(".")[-1]])
        again = get(open_server, "/" + name, If_None_Match=headers["etag"])
        assert again[0] == 304 and again[2] == b""


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/page/pie-client.js"])
def test_the_policy_is_strict(open_server, path):
    headers = get(open_server, path)[1]
    policy = dict(
        part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'" and policy["script-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'" and policy["base-uri"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/page/../../../etc/passwd",
        "/page/%2e%2e/%2e%2e/config.toml",
        "/page//etc/passwd",
        "/page/..",
        "/page/",
        "/index.html",
        "/page/index.html",
        "/page/app.js/",
        "/page/app.js%00.html",
    ],
)
def test_nothing_but_the_pages_files_is_served(open_server, path):
    status, _, text = get(open_server, path)
    assert status == 404 and b"not found" in text


def test_other_origins_are_refused(open_server):
    assert get(open_server, "/", Origin="https://evil.example")[0] == 403
    assert get(open_server, "/page/app.js", Origin="https://evil.example")[0] == 403
    assert get(open_server, "/", Origin=f"http://localhost:{open_server.port}")[0] == 200


def test_the_page_can_be_turned_off(start):
    server = start(config="[server]\npage = false\n")
    assert get(server, "/")[0] == 404 and get(server, "/page/app.js")[0] == 404
    assert get(server, "/healthz")[0] == 200


# --- what is clicked, and what is seen --------------------------


def test_hello_from_the_playground(open_server, visit):
    page = visit(open_server)
    page.view("Playground")
    page.page.select_option("#program", "hello@0.1.0")
    page.sees("#parameters", "Whom to greet")
    page.page.fill("#parameter-name", "Ada")
    page.page.get_by_role("button", name="Launch").click()
    page.sees("#output", "Ada")
    page.sees("#output-state", "has returned")


def test_the_form_is_made_from_the_manifest(open_server, visit):
    page = visit(open_server)
    page.view("Playground")
    page.page.select_option("#program", "watched@0.1.0")
    page.sees("#about", "generates slowly")
    kinds = {
        name: page.page.evaluate(
            "(id) => [e = document.getElementById(id), e.tagName, e.type, e.required].slice(1)",
            f"parameter-{name}",
        )
        for name in ("word", "forks", "pause_s", "loud", "notes")
    }
    assert kinds == {
        "word": ["TEXTAREA", "textarea", True],
        "forks": ["INPUT", "number", False],
        "pause_s": ["INPUT", "number", False],
        "loud": ["SELECT", "select-one", False],
        "notes": ["TEXTAREA", "textarea", False],
    }
    launch = page.page.get_by_role("button", name="Launch")
    launch.click()
    assert page.text("#output") == "", "a required parameter is missing"
    page.page.fill("#parameter-word", "apple")
    page.page.fill("#parameter-forks", "2")
    page.page.fill("#parameter-pause_s", "0.5")
    page.page.select_option("#parameter-loud", "false")
    page.page.fill("#parameter-notes", '["a", 2]')
    page.page.click("summary")
    page.page.fill("#json", '{"more": [1]}')
    launch.click()
    page.sees("#output", "input ")
    sent = json.loads(page.text("#output").split("input ")[1].splitlines()[0])
    given = {"word": "apple", "forks": 2, "pause_s": 0.5, "loud": False, "notes": ["a", 2]}
    assert sent == {**given, "more": [1]}
    page.page.fill("#message", "enough <i>now</i>")
    page.page.get_by_role("button", name="Send").click()
    page.sees("#output", '{"forks":2,"said":"enough <i>now</i>"}')
    page.sees("#output-state", "has returned")


def test_a_program_is_installed_and_stopped(open_server, visit, tmp_path):
    page = visit(open_server)
    page.view("Playground")
    manifest = (ROOT / "inferlets/hello/rust/Pie.toml").read_text()
    (tmp_path / "Pie.toml").write_text(manifest.replace('"hello"', '"hello-again"'))
    (tmp_path / "app.wasm").write_bytes(component("hello-rust"))
    page.page.set_input_files("#component", tmp_path / "app.wasm")
    page.page.set_input_files("#manifest", tmp_path / "Pie.toml")
    page.page.get_by_role("button", name="Install").click()
    page.sees("#installed", "Installed.")
    page.page.select_option("#program", "hello-again@0.1.0")
    page.view("Library")
    page.sees("#programs", "hello-again@0.1.0")
    page.view("Playground")
    (tmp_path / "app.wasm").write_bytes(b"no component")
    page.page.set_input_files("#component", tmp_path / "app.wasm")
    page.page.get_by_role("button", name="Install").click()
    page.sees("#installed", "hello-again@0.1.0 is already installed")

    page.page.select_option("#program", "watched@0.1.0")
    page.page.fill("#parameter-word", "x")
    page.page.get_by_role("button", name="Launch").click()
    page.sees("#output", "token 2")
    page.page.get_by_role("button", name="Stop").click()
    page.sees("#output-state", "ended with an error")


def test_generation_moves_the_charts_and_the_page_map(open_server, visit):
    page = visit(open_server)
    page.sees("#state", "Live")
    page.sees("#map-legend", "free")
    before = page.page.evaluate("document.getElementById('map').toDataURL()")
    with running(open_server) as (process, _):
        name = f"watched@0.1.0 #{process.rsplit('-', 1)[1]}"
        page.sees("#processes", name)
        page.sees("#map-legend", "shared by your contexts")
        page.sees("#map-legend", name)
        page.sees("#accounts", name)
        page.sees("#timeline-text", "sequences and")
        page.sees("#chart-price", "memory is not short")
        for chart in ("#chart-tokens", "#chart-ttft", "#chart-tpot"):
            page.page.wait_for_function(
                "(s) => /[1-9]/.test(document.querySelector(s + ' .value').textContent)", arg=chart
            )
        # A line needs two points, and the second one comes with the next report.
        page.page.wait_for_function(
            "() => document.querySelector('#chart-tpot path').getAttribute('d').startsWith('M')"
        )
        assert page.page.evaluate("document.getElementById('map').toDataURL()") != before
    page.page.wait_for_function("() => !document.querySelector('#processes button')")
    page.sees("#map-legend", "cached")


def test_pages_that_are_swapped_out_are_shown(start, visit):
    server = start(config=SWAPPING)
    install(server)
    page = visit(server)
    with running(server):
        page.sees("#map-legend", "swapped out")


def test_watching_a_stream_takes_nothing_from_its_client(open_server, visit):
    page = visit(open_server)
    with running(open_server) as (_, stop):
        page.page.click("#processes button")
        page.sees("#stream", "<b>pie</b>")  # text, not HTML
        page.sees("#stream-state", "runs")
        tokens = re.findall(r"token (\d+)", page.text("#stream"))
        assert [int(n) for n in tokens] == list(range(int(tokens[0]), int(tokens[-1]) + 1))
        events = stop()
        page.sees("#stream-state", "has ended")
    said = "".join(value for kind, value in events if kind == "stdout")
    got = [int(n) for n in re.findall(r"token (\d+)", said)]
    assert got == list(range(1, len(got) + 1)) and len(got) >= int(tokens[-1])


def test_what_runs_is_stopped(open_server, visit):
    page = visit(open_server)
    with running(open_server):
        page.page.click("#processes button")
        page.page.locator("#stop").click()
        page.sees("#stream-state", "ended")
        page.sees("#processes", "Nothing of yours runs")


def test_the_page_comes_back_when_the_server_does(start, visit, tmp_path):
    server = start(home=tmp_path)
    page = visit(server)
    page.sees("#state", "Live")
    assert server.stop() == 0
    page.sees("#state", "Disconnected")
    again = subprocess.Popen(
        [PIE, "serve", "--dummy", "--port", str(server.port)],
        env={**os.environ, "PIE_HOME": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    page.sees("#state", "Live")
    again.kill()
    again.wait(LIMIT_S)
    page.faults.clear()  # the browser says that it could not connect meanwhile


# --- who sees what ----------------------------------------------


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
        # Grace sees that pages are taken, and not whose they are.
        grace.sees("#map-legend", "other users")
        grace.sees("#processes", "Nothing of yours runs")
        everything = grace.page.content()
        for secret in ("adasword", process, "watched"):
            assert secret not in everything
        grace.view("Library")
        grace.sees("#programs", "hello@0.1.0")  # programs are for everybody

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
        page.sees("#mcp", "everybodys-server")  # a server of the config, for all users
        page.sees("#mcp", "the engine's config")
    mary.sees("#mcp", "marys-tools")
    assert "marys" not in dorothy.page.content()
    gone = "() => !document.querySelector('#mcp').innerText.includes('marys-server')"
    mary.page.wait_for_function(gone)  # its client has left


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


# --- how it looks and feels -------------------------------------


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_no_width_scrolls_sideways(open_server, visit, width):
    page = visit(open_server, viewport={"width": width, "height": 740})
    with running(open_server, word="w" * 30):
        page.page.click("#processes button")
        page.sees("#stream", "token")
        for name in ("Live", "Playground", "Library"):
            page.view(name)
            page.page.wait_for_timeout(300)
            wide = page.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, name


def test_the_keyboard_alone(open_server, visit):
    page = visit(open_server)
    page.sees("#state", "Live")
    keyboard = page.page.keyboard

    def tab_to(script: str) -> None:
        for _ in range(40):
            keyboard.press("Tab")
            if page.page.evaluate(
                f"(() => {{ const e = document.activeElement; return {script}; }})()"
            ):
                outline = page.page.evaluate(
                    "getComputedStyle(document.activeElement).outlineStyle"
                )
                assert outline != "none", "the focus is seen"
                return
        raise AssertionError(f"Tab never reached {script}")

    tab_to("e.hash === '#playground'")
    keyboard.press("Enter")
    page.sees("#program", "hello@0.1.0")
    tab_to("e.id === 'program'")
    keyboard.type("hello@0.1.0")
    page.sees("#parameters", "Whom to greet")
    tab_to("e.id === 'parameter-name'")
    keyboard.type("keys")
    tab_to("e.textContent === 'Launch'")
    keyboard.press("Enter")
    page.sees("#output", "keys")
    with running(open_server):
        page.page.evaluate("document.activeElement.blur()")
        tab_to("e.hash === '#live'")
        keyboard.press("Enter")
        page.page.wait_for_selector("#processes button")
        tab_to("e.className === 'process'")
        keyboard.press("Enter")
        page.sees("#stream", "token")
        # The list is drawn again several times a second, and keeps the focus.
        page.page.wait_for_timeout(1500)
        assert page.page.evaluate("document.activeElement.className") == "process"
        tab_to("e.id === 'stop'")
        keyboard.press("Enter")
        page.sees("#processes", "Nothing of yours runs")


def test_every_control_has_a_name(open_server, visit):
    page = visit(open_server)
    for name in ("Live", "Playground", "Library"):
        page.view(name)
        page.page.wait_for_timeout(500)
        nameless = page.page.evaluate(
            """() => [...document.querySelectorAll('button, input, select, textarea, canvas, svg')]
            .filter((e) => e.offsetParent !== null || e.tagName === 'svg')
            .filter((e) => !(e.labels?.length || e.textContent.trim() || e.ariaLabel))
            .map((e) => e.outerHTML)"""
        )
        assert nameless == []


def test_light_and_dark(open_server, visit):
    def brightness(scheme: str) -> tuple[float, float]:
        page = visit(open_server, color_scheme=scheme)
        page.sees("#state", "Live")
        colours = page.page.evaluate(
            "[getComputedStyle(document.documentElement).backgroundColor, "
            "getComputedStyle(document.body).color]"
        )
        return tuple(sum(map(int, re.findall(r"\d+", colour)[:3])) / 765 for colour in colours)

    back, ink = brightness("light")
    assert back > 0.9 and ink < 0.3
    back, ink = brightness("dark")
    assert back < 0.2 and ink > 0.7
