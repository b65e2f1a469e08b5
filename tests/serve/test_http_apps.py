"""HTTP inferlets under /apps/ on the server's port: valid and malformed requests and answers."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
from contextlib import closing

import pytest
from conftest import PIE
from http_apps import LIMIT_S, ask, headers_of, instances, with_http


@pytest.fixture(scope="module")
def web(start):
    """A server with the program of these tests."""
    return with_http(start())


def test_a_request_and_its_answer(web):
    status, body = ask(
        web.port,
        "GET",
        "/apps/http-echo/about?a=1&b=%20",
        **{"X-Test": "ü".encode().decode("latin-1")},
    )
    about = json.loads(body)
    assert (status, about["method"], about["query"]) == (200, "GET", "a=1&b=%20")
    assert about["user"] == "local"
    assert about["headers"]["x-test"] == "ü"
    assert ask(web.port, "GET", "/apps/http-echo@0.1.0/nowhere") == (404, b"no such path")
    assert ask(web.port, "HEAD", "/apps/http-echo/about")[1] == b""


def test_each_request_has_an_instance_of_its_own(web):
    first, second = (
        json.loads(ask(web.port, "GET", "/apps/http-echo/about")[1])["instance"] for _ in range(2)
    )
    assert first != second


@pytest.mark.parametrize("size", [0, 1, 100_000, 5_000_000])
def test_bodies_of_every_size(web, size):
    data = bytes(i % 251 for i in range(size))
    assert ask(web.port, "POST", "/apps/http-echo/echo", data) == (201, data)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/healthz", 405), ("/apps/missing/", 404), ("/apps/http-echo/about", 200)],
)
def test_an_answer_without_the_body_arrives(web, path, status):
    """The client is still sending when it is answered. It sends on, and then reads the answer."""
    assert ask(web.port, "POST", path, bytes(30 << 20))[0] == status


def test_a_client_that_sends_on_for_ever_is_cut_off(web):
    with socket.create_connection(("127.0.0.1", web.port), LIMIT_S) as peer:
        peer.sendall(
            b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000000\r\n\r\n"
        )
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() - began < LIMIT_S:
                peer.sendall(b"x" * 1000)
                time.sleep(0.01)
        assert time.monotonic() - began < 60


def test_a_chunked_body_and_100_continue(web):
    with socket.create_connection(("127.0.0.1", web.port), LIMIT_S) as peer:
        peer.sendall(b"POST /apps/http-echo/echo HTTP/1.1\r\nHost: localhost\r\n")
        peer.sendall(b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
        assert peer.recv(64).startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
        peer.sendall(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        answer = b""
        while b"abcde" not in answer:
            more = peer.recv(4096)
            assert more, answer
            answer += more
        assert answer.startswith(b"HTTP/1.1 201")


def test_a_response_streams_as_it_is_written(web):
    with closing(http.client.HTTPConnection("127.0.0.1", web.port, timeout=LIMIT_S)) as connection:
        connection.request("GET", "/apps/http-echo/stream")
        response = connection.getresponse()
        assert response.getheader("content-type") == "text/event-stream"
        first = response.read1(100)
        assert first == b"data: 0\n\n"
        assert response.read() == b"data: 1\n\ndata: 2\n\n"
        connection.request("GET", "/apps/http-echo/about")  # the connection is used again
        assert connection.getresponse().status == 200


def test_failures_have_the_form_of_an_error(web):
    status, body = ask(web.port, "GET", "/apps/http-echo/trap")
    assert status == 500 and "the inferlet failed" in json.loads(body)["error"]["message"]
    status, body = ask(web.port, "GET", "/apps/http-echo/none")
    assert status == 500 and "no response" in json.loads(body)["error"]["message"]
    status, body = ask(web.port, "GET", "/apps/missing/")
    assert status == 404 and "missing" in json.loads(body)["error"]["message"]
    with pytest.raises(http.client.IncompleteRead):
        ask(web.port, "GET", "/apps/http-echo/cut")


def test_an_instance_ends_when_its_client_leaves(web):
    for path in ("/late", "/flood"):
        peer = socket.create_connection(("127.0.0.1", web.port), LIMIT_S)
        peer.sendall(f"GET /apps/http-echo{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        end = time.monotonic() + LIMIT_S
        while instances(web) == 0 and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.5)
        assert instances(web) == 1  # a flood waits for its reader
        peer.close()
        while instances(web) > 0 and time.monotonic() < end:
            time.sleep(0.05)
        assert instances(web) == 0, path


def test_a_model_answers(web):
    status, body = ask(web.port, "GET", "/apps/http-echo/generate")
    assert status == 200 and body


@pytest.mark.parametrize(
    "head",
    [
        "POST {echo} HTTP/1.1|Content-Length: 3|Transfer-Encoding: chunked",
        "POST {echo} HTTP/1.1|Content-Length: 3|Content-Length: 4",
        "POST {echo} HTTP/1.1|Content-Length: -1",
        "POST {echo} HTTP/1.1|Content-Length: +3",
        "POST {echo} HTTP/1.1|Transfer-Encoding : chunked",
        "POST {echo} HTTP/1.1|Transfer-Encoding: xchunked",
        "POST {echo} HTTP/1.1|Transfer-Encoding: identity",
        "POST {echo} HTTP/1.1|Transfer-Encoding: chunked, identity",
        "POST {echo} HTTP/1.1|Transfer-Encoding: gzip, chunked",
        "POST {echo} HTTP/1.1|Transfer-Encoding: chunked|Transfer-Encoding: chunked",
        "GET {echo} HTTP/1.1|Host: other",
        "GET {echo} HTTP/1.1|A: b\0c",
        "GET {echo} HTTP/9.9",
        "GET {echo} HTTP/1.1|A: " + "x" * 20_000,
        "POST {echo} HTTP/1.1|Content-Length: 99999999999",
        "\x16\x03\x01\x00\x05hello",
    ],
)
def test_malformed_requests_are_refused(web, head):
    with socket.create_connection(("127.0.0.1", web.port), LIMIT_S) as peer:
        lines = head.format(echo="/apps/http-echo/echo").split("|")
        peer.sendall("\r\n".join([*lines, "Host: localhost", "", ""]).encode())
        answer = peer.recv(4096)
        assert answer == b"" or answer.split()[1] in (b"400", b"413"), answer
    assert ask(web.port, "GET", "/healthz") == (200, b"ok\n")


def test_a_request_behind_a_refused_one_is_not_answered(web):
    """A proxy in front could take the second request for the body of the first."""
    second = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for coding in (b"xchunked", b"identity"):
        with socket.create_connection(("127.0.0.1", web.port), LIMIT_S) as peer:
            head = b"POST /apps/http-echo/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
            peer.sendall(head + coding + b"\r\n\r\n" + second)
            answer = b""
            while more := peer.recv(4096):
                answer += more
        assert answer.count(b"HTTP/1.1 ") == 1 and b"400 Bad Request" in answer


@pytest.mark.parametrize(
    "body", [b"zz\r\nabc\r\n", b"f" * 17 + b"\r\nabc", b"3\r\nhello\r\n0\r\n\r\n"]
)
def test_malformed_chunks_end_the_connection(web, body):
    with socket.create_connection(("127.0.0.1", web.port), LIMIT_S) as peer:
        head = b"POST /apps/http-echo/echo HTTP/1.1\r\nHost: localhost\r\n"
        peer.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + body)
        answer = b""
        while more := peer.recv(4096):
            answer += more
    assert not answer.startswith(b"HTTP/1.1 2") or not answer.endswith(b"0\r\n\r\n"), answer


def test_a_head_that_never_ends(web):
    with socket.create_connection(("127.0.0.1", web.port), LIMIT_S) as peer:
        peer.sendall(b"GET /apps/http-echo/about HTTP/1.1\r\nHost: localhost\r\n")
        with pytest.raises(OSError):
            for number in range(1_000_000):
                peer.sendall(b"x-%d: y\r\n" % number)
    assert number < 100_000
    assert ask(web.port, "GET", "/healthz") == (200, b"ok\n")


def test_clients_that_send_slowly_hold_up_nobody(web):
    """Each of them has begun a head or a body and does not go on."""
    head = b"POST /apps/http-echo/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx"
    slow = [socket.create_connection(("127.0.0.1", web.port), LIMIT_S) for _ in range(64)]
    try:
        for number, peer in enumerate(slow):
            peer.sendall(head if number % 2 else head[:40])
        for _ in range(20):
            assert ask(web.port, "POST", "/apps/http-echo/echo", b"quick") == (201, b"quick")
    finally:
        for peer in slow:
            peer.close()


def test_head_and_options_of_the_servers_own_routes(web):
    status, headers = headers_of(web.port, "HEAD", "/healthz")
    assert status == 200 and dict(headers)["content-length"] == "3"
    status, headers = headers_of(web.port, "OPTIONS", "/healthz")
    assert status == 204 and dict(headers)["allow"] == "GET, HEAD, OPTIONS"
    status, headers = headers_of(web.port, "POST", "/healthz")
    assert status == 405 and dict(headers)["allow"] == "GET, HEAD, OPTIONS"


def test_with_authentication_a_route_needs_a_key(start):
    serving = start(config="[auth]\nenabled = true\n")

    def token(*words: str) -> str:
        done = subprocess.run(
            [PIE, "auth", "token", *words],
            env={"PIE_HOME": str(serving.home), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    key = token("create", "ada", "--name", "laptop")
    stored = (serving.home / "api_tokens.toml").read_text()
    assert key.startswith("pie-") and key not in stored and "laptop" in stored

    def about(bearer: str | None):
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        return ask(serving.port, "GET", "/apps/http-echo/about", **headers)

    assert about(None)[0] == 401 and about("pie-wrong")[0] == 401 and about(serving.token)[0] == 404
    # The key's user is known; the program is not installed.
    assert about(key)[0] == 404
    assert ask(serving.port, "GET", "/apps/http-echo/about", **{"x-api-key": key})[0] == 404
    assert ask(serving.port, "GET", "/apps/http-echo/about", **{"x-api-key": "pie-x"})[0] == 401
    assert "laptop" in token("list") and key not in token("list")
    assert token("revoke", "laptop") == "revoked"
    assert about(key)[0] == 401
