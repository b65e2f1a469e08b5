"""The page at the server's root in a browser, and other clients of the same server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import browser
from conftest import ROOT, Serving, component
from raw_client import LIMIT_S, RawClient

PROGRAMS = {
    "hello-rust": "inferlets/hello/rust/Pie.toml",
    "serve-watched-rust": "tests/serve/watched/rust/Pie.toml",
    "remember-rust": "inferlets/remember/rust/Pie.toml",
    "e2e-adapter-script": "tests/e2e/adapter-script/Pie.toml",
}
SLOW = {"word": "pie", "forks": 3, "pause_s": 0.05}


def install(server: Serving, token: str | None = None) -> None:
    with connected(server, token=token) as (client, on):
        for name, manifest in PROGRAMS.items():
            on(client.install(component(name), (ROOT / manifest).read_text()))


class Watched:
    """A page in the browser, and all errors that it has logged."""

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


@contextmanager
def visiting(chromium) -> Iterator[Callable[..., Watched]]:
    """Opens pages, each in its own browser profile. No page may log an error."""
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
    """Another client of the same server, and the thread that runs its coroutines."""
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
    """Another client has launched the slow program, which runs meanwhile."""
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
