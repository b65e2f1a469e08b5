"""HTTP both ways, and files, in every language: the same requests get the same answers."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import configuration
import pytest
from conftest import PIE, ROOT, install_once
from raw_client import RawClient
from upstream import METADATA, listening

LANGUAGES = ("rust", "python", "typescript", "cpp")
LIMIT_S = 120
DENIED = "the engine's config does not allow this host; add it to [runtime.http] allow"


@pytest.fixture(scope="module")
def upstream() -> Iterator[int]:
    with listening() as port:
        yield port


@pytest.fixture(scope="module")
def web(start, upstream):
    """A server whose inferlets may reach one port of this machine."""
    return start(
        config=f"""
[runtime.http]
allow = ["127.0.0.1:{upstream}", "127.0.0.1:1", "localtest.invalid"]
max_response_mb = 8
timeout_secs = 4
"""
    )


class App:
    """The program of one language, as its clients see it."""

    def __init__(self, port: int, name: str) -> None:
        self.port = port
        self.name = name

    def ask(self, path: str, method: str = "GET", body=None, **headers: str) -> tuple[int, bytes]:
        """Returns the status and the body."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)) as wire:
            wire.request(method, f"/apps/{self.name}{path}", body, headers)
            response = wire.getresponse()
            return response.status, response.read()

    def text(self, path: str) -> tuple[int, str]:
        status, body = self.ask(path)
        return status, body.decode()


@pytest.fixture(params=LANGUAGES)
def app(request, web, on) -> App:
    """Installs the program of one language."""
    name = "http-echo" if request.param == "rust" else f"http-echo-{request.param}"
    manifest = (ROOT / "tests/serve/http" / request.param / "Pie.toml").read_text()

    async def install():
        async with await RawClient.connect(web.uri) as client:
            await install_once(client, f"serve-http-{request.param}", manifest)

    on(install())
    return App(web.port, name)


# --- requests that inferlets answer


def test_a_request_and_its_answer(app):
    header = {"X-Test": "ü".encode().decode("latin-1")}
    status, body = app.ask("/about?a=1&b=%20", **header)
    about = json.loads(body)
    assert (status, about["method"], about["query"]) == (200, "GET", "a=1&b=%20")
    assert about["user"] == "local"
    # The headers of the web are texts of bytes.
    is_web = app.name.endswith("typescript")
    assert about["headers"]["x-test"] == (header["X-Test"] if is_web else "ü")
    assert app.ask("/nowhere") == (404, b"no such path")
    assert about["instance"] != json.loads(app.ask("/about")[1])["instance"]


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_bodies_of_every_size(app, size):
    data = bytes(i % 251 for i in range(size))
    assert app.ask("/echo", "POST", data) == (201, data)


def test_a_response_streams_as_it_is_written(app):
    with closing(http.client.HTTPConnection("127.0.0.1", app.port, timeout=LIMIT_S)) as wire:
        wire.request("GET", f"/apps/{app.name}/stream")
        response = wire.getresponse()
        assert response.getheader("content-type") == "text/event-stream"
        assert response.read1(100) == b"data: 0\n\n"
        assert response.read() == b"data: 1\n\ndata: 2\n\n"


def test_both_bodies_stream_at_once(app):
    """The inferlet answers the first part of a request whose second part has not been sent."""
    with socket.create_connection(("127.0.0.1", app.port), LIMIT_S) as peer:
        head = f"POST /apps/{app.name}/pipe HTTP/1.1\r\nHost: localhost\r\n"
        peer.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        seen = b""
        for part, rest in ((b"first", b"6\r\nsecond\r\n0\r\n\r\n"), (b"second", b"")):
            while part not in seen:
                more = peer.recv(4096)
                assert more, seen
                seen += more
            peer.sendall(rest)


def test_failures_have_the_form_of_an_error(app):
    status, body = app.ask("/trap")
    assert status == 500, body
    assert json.loads(body)["error"]["message"]
    status, body = app.ask("/none")
    assert status == 500
    assert "no response" in json.loads(body)["error"]["message"]
    with pytest.raises(http.client.IncompleteRead):
        app.ask("/cut")


def test_a_model_answers(app):
    status, body = app.ask("/generate")
    assert status == 200 and body


# --- requests that inferlets make


def test_an_inferlet_reaches_what_the_list_names(app, upstream):
    assert app.text(f"/fetch?http://127.0.0.1:{upstream}/") == (200, "from upstream")
    assert app.text(f"/fetch?http://127.0.0.1:{upstream}/missing") == (200, "nothing here")


def test_a_request_with_a_body_and_headers(app, upstream):
    status, body = app.ask(f"/post?http://127.0.0.1:{upstream}/post")
    assert status == 200, body
    kept = {"content-type": "application/json", "x-key": "k"}
    assert json.loads(body) == [201, True, [{"a": [1, "ü"]}, kept]]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:2/",  # another port
        "http://localhost:{port}/",  # a name that is not on the list
        "http://[::1]:{port}/",
        METADATA,
        "http://2130706433:{port}/",  # 127.0.0.1 as one number
        "https://example.com/",
    ],
)
def test_an_inferlet_reaches_nothing_else(app, upstream, url):
    if "2130706433" in url and app.name.endswith("typescript"):
        pytest.skip("a URL of the web writes this address as 127.0.0.1, which is allowed")
    url = url.format(port=upstream)
    status, text = app.text(f"/fetch?{url}")
    assert status == 502
    host = urlsplit(url).hostname
    assert DENIED in text and (host in text or host == "2130706433"), text


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:1/", "the server refused the connection"),
        ("http://localtest.invalid/", "the name was not found"),
        (
            "http://127.0.0.1:{port}/endless",
            "the response is longer than 8388608 bytes (runtime.http.max_response_mb)",
        ),
        (
            "http://127.0.0.1:{port}/slow",
            "the response did not arrive in time (runtime.http.timeout_secs)",
        ),
        ("http://127.0.0.1:{port}/silent", "no response came in time"),
        ("http://127.0.0.1:{port}/headers", "the head of the response is too long"),
        ("http://127.0.0.1:{port}/short", "the response ended before it was complete"),
        ("http://127.0.0.1:{port}/garbage", "the server's answer is not HTTP"),
        ("https://127.0.0.1:{port}/", "TLS failed; the port may speak plain HTTP"),
        ("ftp://127.0.0.1:{port}/", "http:// or https://"),
        ("http://u:p@127.0.0.1:{port}/", "has a user and a password"),
    ],
)
def test_bad_servers_and_urls_are_errors(app, upstream, url, why):
    status, text = app.text(f"/fetch?{url.format(port=upstream)}")
    assert status == 502, text[:100]
    assert why in text
    assert app.text(f"/fetch?http://127.0.0.1:{upstream}/") == (200, "from upstream")


def test_a_compressed_body_does_not_grow(app, upstream):
    """Nothing on the way decompresses it."""
    status, body = app.ask(f"/fetch?http://127.0.0.1:{upstream}/bomb")
    assert status == 200 and len(body) < 1 << 20


def test_a_redirect_is_checked_as_any_request(app, upstream):
    """`/fetch` of TypeScript is `fetch`, which follows redirects; the others give the redirect."""
    status, text = app.text(f"/fetch?http://127.0.0.1:{upstream}/redirect")
    follows = app.name.endswith("typescript")
    if follows:
        assert (status, DENIED in text) == (502, True), text
    else:
        assert (status, text) == (200, "")
    status, text = app.text(f"/fetch?http://127.0.0.1:{upstream}/hop")
    assert (status, text) == (200, "from upstream" if follows else "")


def test_the_languages_own_library(app, upstream):
    """urllib.request of Python, wstd of Rust, and fetch's options of TypeScript."""
    if app.name.endswith("cpp"):
        pytest.skip("C++ has no library for HTTP")
    root = f"http://127.0.0.1:{upstream}"
    assert app.text(f"/library?{root}/") == (200, "from upstream")
    assert app.text(f"/library?{root}/missing") == (404, "nothing here")
    status, text = app.text(f"/library?{METADATA}")
    assert status == 502 and text
    if app.name.endswith("python"):
        assert app.text(f"/library?{root}/hop") == (200, "from upstream")
        for path, why in (("redirect", DENIED), ("circle", "infinite loop")):
            status, text = app.text(f"/library?{root}/{path}")
            assert (status == 502 and DENIED in text) or why in text or status == 302, text


def test_a_response_is_cloned(app, upstream):
    if not app.name.endswith("typescript"):
        pytest.skip("only fetch has responses that can be cloned")
    status, text = app.text(f"/clone?http://127.0.0.1:{upstream}/")
    whole = "from upstream"
    told = {"a": whole, "b": whole, "c": whole, "same": True, "refused": "TypeError"}
    assert (status, json.loads(text)) == (200, told)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_example_of_the_guide(language, upstream, tmp_path):
    configuration.write(tmp_path, f'[runtime.http]\nallow = ["127.0.0.1:{upstream}"]\n')
    guest = ROOT / "build" / "guests" / f"fetch-{language}.wasm"
    url = f"http://127.0.0.1:{upstream}/"
    done = subprocess.run(
        [PIE, "run", "--dummy", "--path", guest, "--", "--url", url],
        env={**os.environ, "PIE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "200: from upstream\n"), done.stderr


# --- files


def test_files_of_scratch(app):
    status, body = app.ask("/files")
    assert status == 200, body
    assert json.loads(body) == ["one\ntwo\n", ["b", "text"], 8, [], False]
    assert json.loads(app.ask("/files")[1])[0] == "one\ntwo\n"  # the folder of each is its own
