"""HTTP requests of inferlets: the config lists the hosts to which they may be sent."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from http_apps import ask, with_http


@pytest.fixture(scope="module")
def upstream():
    """A server on this machine; some tests allow inferlets to send requests to it, some do not."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/redirect":
                self.send_response(302)
                self.send_header("location", "http://169.254.169.254/")
                self.end_headers()
                return
            if self.path == "/endless":
                self.send_response(200)
                self.end_headers()
                for _ in range(100_000):
                    try:
                        self.wfile.write(b"x" * 65536)
                    except OSError:
                        return
                return
            body = b"from upstream"
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield listening.server_address[1]
    listening.shutdown()


@pytest.fixture(scope="module")
def web(start, upstream):
    """A server with the program of these tests. The program may send requests to one port of this
    machine.
    """
    config = f'[runtime.http]\nallow = ["127.0.0.1:{upstream}"]\nmax_response_mb = 8\n'
    return with_http(start(config=config))


def fetch(web, url: str) -> tuple[int, str]:
    status, body = ask(web.port, "GET", f"/apps/http-echo/fetch?{url}")
    return status, body.decode()


def test_an_inferlet_reaches_what_the_list_names(web, upstream):
    assert fetch(web, f"http://127.0.0.1:{upstream}/") == (200, "from upstream")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/",  # another port
        "http://localhost:{port}/",  # a name that is not on the list
        "http://[::1]:{port}/",
        "http://169.254.169.254/latest/meta-data",
        "http://2130706433:{port}/",  # 127.0.0.1 as one number
        "https://example.com/",
    ],
)
def test_an_inferlet_reaches_nothing_else(web, upstream, url):
    status, text = fetch(web, url.format(port=upstream))
    assert status == 502 and "does not allow this host" in text


def private_names() -> list[str]:
    """Names that resolve to this machine, besides localhost."""
    with open("/etc/hosts") as file:
        lines = [line.split("#")[0].split() for line in file]
    names = [name for line in lines if line and line[0].startswith("127.") for name in line[1:]]
    return [name for name in names if not name.startswith("localhost")]


def test_a_name_that_leads_to_a_private_address(start, upstream):
    """The owner of a name on the list may point it to any address."""
    if not (names := private_names()):
        pytest.skip("/etc/hosts has no other name for this machine")
    serving = with_http(start(config=f'[runtime.http]\nallow = ["{names[0]}:{upstream}"]\n'))
    status, text = fetch(serving, f"http://{names[0]}:{upstream}/")
    assert status == 502 and "an address that is not public" in text, text


def test_a_redirect_is_not_followed(web, upstream):
    status, text = fetch(web, f"http://127.0.0.1:{upstream}/redirect")
    assert (status, text) == (200, "")


def test_a_long_response_is_cut_off(web, upstream):
    status, text = fetch(web, f"http://127.0.0.1:{upstream}/endless")
    assert status == 502 and "the response is longer than 8388608 bytes" in text


def test_nothing_is_reached_by_default(start, upstream):
    serving = with_http(start())
    status, text = fetch(serving, f"http://127.0.0.1:{upstream}/")
    assert status == 502 and "[runtime.http] allow" in text
