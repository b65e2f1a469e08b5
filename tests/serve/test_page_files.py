"""The files of the page at the server's root, and how the server answers requests for them."""

from __future__ import annotations

import http.client
import re

import pytest
from conftest import Serving
from raw_client import LIMIT_S


@pytest.fixture(scope="module")
def open_server(start) -> Serving:
    return start()


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
