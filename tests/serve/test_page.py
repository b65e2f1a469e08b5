"""The page at the server's root, in a real browser: the tests click, and check what is shown."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
from conftest import PIE, ROOT, Serving, component
from page import install, running, visiting
from raw_client import LIMIT_S

# Contexts that are not used lose their pages to host memory after every batch.
SWAPPING = """
[[model]]
[model.driver.options]
swap_pool_size = 4096
[model.scheduler]
suspend_every_steps = 1
swap_always = true
"""


@pytest.fixture(scope="module")
def open_server(start) -> Serving:
    server = start()
    install(server)
    return server


@pytest.fixture
def visit(chromium):
    """Opens pages. None may complain."""
    with visiting(chromium) as go:
        yield go


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
    page.sees("#state", "Connected")
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
    page.sees("#state", "Connected")
    assert server.stop() == 0
    page.sees("#state", "Disconnected")
    again = subprocess.Popen(
        [PIE, "serve", "--dummy", "--port", str(server.port)],
        env={**os.environ, "PIE_HOME": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    page.sees("#state", "Connected")
    again.kill()
    again.wait(LIMIT_S)
    page.faults.clear()  # the browser says that it could not connect meanwhile


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
    page.sees("#state", "Connected")
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
        page.sees("#state", "Connected")
        colours = page.page.evaluate(
            "[getComputedStyle(document.documentElement).backgroundColor, "
            "getComputedStyle(document.body).color]"
        )
        return tuple(sum(map(int, re.findall(r"\d+", colour)[:3])) / 765 for colour in colours)

    back, ink = brightness("light")
    assert back > 0.9 and ink < 0.3
    back, ink = brightness("dark")
    assert back < 0.2 and ink > 0.7
