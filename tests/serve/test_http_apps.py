"""HTTP inferlets: under /apps/ of the server's port, and as daemons on ports of their own."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import subprocess
import threading
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import browser
import pytest
from conftest import PIE, ROOT, SESSION_MANIFEST, install_once
from raw_client import RawClient, Refused

MANIFEST = (ROOT / "tests/serve/http/rust/Pie.toml").read_text()
LIMIT_S = 120


async def install(server, user: str = "ada") -> RawClient:
    client = await RawClient.connect(server.uri, user)
    await install_once(client, "serve-http-rust", MANIFEST)
    return client


@pytest.fixture(scope="module")
def upstream():
    """A server of this machine that inferlets may or may not reach."""

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
    """A server with the program of these tests, which may reach one port of this machine."""
    config = f'[runtime.http]\nallow = ["127.0.0.1:{upstream}"]\nmax_response_mb = 8\n'
    serving = start(config=config)

    async def once():
        async with await install(serving):
            pass

    asyncio.run(once())
    return serving


def ask(port: int, method: str, path: str, body: bytes | None = None, **headers: str):
    """Returns the status and the body."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)) as connection:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()


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


def instances(web) -> int:
    metrics = ask(web.port, "GET", "/metrics")[1].decode()
    return int(
        next(line for line in metrics.splitlines() if line.startswith("pie_instances ")).split()[1]
    )


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


def headers_of(port: int, method: str, path: str, **headers: str) -> tuple[int, list]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)) as connection:
        connection.request(method, path, None, headers)
        response = connection.getresponse()
        response.read()
        return response.status, [(name.lower(), value) for name, value in response.getheaders()]


ABOUT = "/apps/http-echo/about"


def test_a_page_of_another_origin_is_refused(web):
    assert ask(web.port, "GET", ABOUT, Origin="https://evil.example")[0] == 403
    assert ask(web.port, "GET", ABOUT, Origin="http://localhost:3000")[0] == 200
    # Browsers name no origin when a page of another site loads an image.
    image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    assert ask(web.port, "GET", ABOUT, **image)[0] == 403
    link = {**image, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert ask(web.port, "GET", ABOUT, **link)[0] == 200


def test_a_name_that_leads_here_is_refused(web, start, on):
    """DNS rebinding: an attacker's name points to this machine, so its page has no other origin."""
    for path in (ABOUT, "/", "/page/app.js", "/metrics", "/v1/models"):
        status, body = ask(web.port, "GET", path, Host="evil.example:8080")
        assert status == 403 and b"server.allowed_hosts" in body, path
    for host in ("localhost:1", "LOCALHOST", "a.localhost", "[::1]:8080", "192.0.2.1", "127.0.0.1"):
        assert ask(web.port, "GET", ABOUT, Host=host)[0] == 200, host
    assert ask(web.port, "GET", "/healthz", Host="probe")[0] == 200
    other = start(config='[server]\nallowed_hosts = ["pie.example"]\n')
    assert ask(other.port, "GET", "/metrics", Host="Pie.Example:8080")[0] == 200
    assert ask(other.port, "GET", "/metrics", Host="evil.example")[0] == 403

    async def daemon():
        async with await install(web) as client:
            opened = await client.ask(
                "launch_daemon", port=0, inferlet="http-echo@0.1.0", input="{}"
            )
            found = json.loads(await client.ask("list_processes"))
            port = next(one["port"] for one in found if one["process_id"] == opened)
            assert ask(port, "GET", "/about")[0] == 200
            assert ask(port, "GET", "/about", Host="evil.example")[0] == 403
            assert ask(port, "POST", "/echo", b"x", Origin="https://evil.example")[0] == 403
            await client.ask("terminate_process", process_id=opened)

    on(daemon())


def test_documents_of_inferlets_have_a_policy(web, start, on):
    """They share the origin of the server's page, and must not act as its user."""
    status, headers = headers_of(web.port, "GET", "/apps/http-echo/page")
    sent = dict(headers)
    assert status == 200 and sent["content-type"] == "text/html"
    assert f" 127.0.0.1:{web.port}/apps/http-echo/" in sent["content-security-policy"]
    assert sent["x-content-type-options"] == "nosniff"
    assert not {"set-cookie", "service-worker-allowed", "clear-site-data"} & set(sent)
    assert ask(web.port, "GET", ABOUT, Origin="null")[0] == 403

    trusting = start(config='[server]\ntrusted_apps = ["http-echo"]\n')

    async def once():
        async with await install(trusting):
            pass

    on(once())
    sent = dict(headers_of(trusting.port, "GET", "/apps/http-echo@0.1.0/page")[1])
    assert "content-security-policy" not in sent and sent["set-cookie"] == "a=b"


def test_a_document_at_the_ipv6_loopback_moves_to_localhost(web):
    """No policy can name [::1], so its scripts could not send a request there."""
    host = {"Host": f"[::1]:{web.port}"}
    opened = {**host, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    status, headers = headers_of(web.port, "GET", "/apps/http-echo/page?a=b", **opened)
    assert status == 307
    assert dict(headers)["location"] == f"http://localhost:{web.port}/apps/http-echo/page?a=b"
    assert headers_of(web.port, "GET", ABOUT, **host)[0] == 200  # not opened as a document


def test_documents_of_inferlets_in_a_browser(web, start, on):
    """Their scripts reach the inferlet, and nothing that belongs to the server's page."""
    script = "(path) => fetch(path, {method: 'POST', headers: {'content-type': 'application/json'},"
    script += " body: '{}'}).then((answer) => answer.text(), () => 'refused')"
    connect = (
        "(path) => new Promise((done) => {"
        " try { const socket = new WebSocket(`ws://${location.host}${path}`);"
        " socket.onopen = () => done('open'); socket.onerror = () => done('refused') }"
        " catch (error) { done('refused') } })"
    )
    trusting = start(config='[server]\ntrusted_apps = ["http-echo"]\n')

    async def once():
        async with await install(trusting):
            pass

    on(once())

    with browser.opened() as opened:
        page = opened.new_page()
        page.goto(f"http://127.0.0.1:{web.port}/apps/http-echo/page")
        assert page.evaluate(script, "/apps/http-echo/echo") == "{}"
        assert page.evaluate(script, "/metrics") == "refused"
        assert page.evaluate(connect, "/") == "refused"
        assert page.evaluate(connect, "/apps/http-echo/") == "refused"
        # Nor by way of another document of this origin.
        for path in ("/metrics", "/nothing", "/"):
            through = f"() => {{ window.other = open('{path}') }}"
            with page.expect_popup() as other:
                page.evaluate(through)
            other.value.wait_for_load_state()
            reach = "() => { try { return typeof other.WebSocket } catch (e) { return e.name } }"
            assert page.evaluate(reach) in ("SecurityError", "undefined"), path

        page.goto(f"http://127.0.0.1:{trusting.port}/apps/http-echo/page")
        assert page.evaluate(connect, "/") == "open"
        assert page.evaluate(connect, "/apps/http-echo/") == "refused"


def test_pages_of_origins_in_the_config(start, on):
    origin = "https://app.example"
    config = f'[server]\nallowed_origins = ["{origin}"]\n[server.routes]\n"/v1" = "http-echo"\n'
    server = start(config=config)

    async def once():
        async with await install(server):
            pass

    on(once())
    preflight = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    status, headers = headers_of(server.port, "OPTIONS", "/v1/chat", **preflight)
    sent = dict(headers)
    assert status == 204 and sent["access-control-allow-origin"] == origin
    assert sent["access-control-allow-methods"] == "POST"
    assert sent["access-control-allow-headers"] == "authorization,content-type"
    status, headers = headers_of(server.port, "POST", "/v1/chat", Origin=origin)
    assert status == 404 and ("access-control-allow-origin", origin) in headers
    assert ("vary", "Origin") in headers
    for other in ("https://app.example.evil", "http://app.example", "https://app.example:8"):
        assert headers_of(server.port, "POST", "/v1/chat", Origin=other)[0] == 403
        refused = headers_of(server.port, "OPTIONS", "/v1/chat", **{**preflight, "Origin": other})
        assert "access-control-allow-origin" not in dict(refused[1])


def test_head_and_options_of_the_servers_own_routes(web):
    status, headers = headers_of(web.port, "HEAD", "/healthz")
    assert status == 200 and dict(headers)["content-length"] == "3"
    status, headers = headers_of(web.port, "OPTIONS", "/healthz")
    assert status == 204 and dict(headers)["allow"] == "GET, HEAD, OPTIONS"
    status, headers = headers_of(web.port, "POST", "/healthz")
    assert status == 405 and dict(headers)["allow"] == "GET, HEAD, OPTIONS"


# --- requests that inferlets make


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
    """Names of this machine that lead to it, besides localhost."""
    with open("/etc/hosts") as file:
        lines = [line.split("#")[0].split() for line in file]
    names = [name for line in lines if line and line[0].startswith("127.") for name in line[1:]]
    return [name for name in names if not name.startswith("localhost")]


def test_a_name_that_leads_to_a_private_address(start, upstream):
    """The owner of a name on the list may point it to any address."""
    if not (names := private_names()):
        pytest.skip("/etc/hosts has no other name for this machine")
    serving = start(config=f'[runtime.http]\nallow = ["{names[0]}:{upstream}"]\n')

    async def once():
        async with await install(serving):
            pass

    asyncio.run(once())
    status, text = fetch(serving, f"http://{names[0]}:{upstream}/")
    assert status == 502 and "an address that is not public" in text, text


def test_a_redirect_is_not_followed(web, upstream):
    status, text = fetch(web, f"http://127.0.0.1:{upstream}/redirect")
    assert (status, text) == (200, "")


def test_a_long_response_is_cut_off(web, upstream):
    status, text = fetch(web, f"http://127.0.0.1:{upstream}/endless")
    assert status == 502 and "the response is longer than 8388608 bytes" in text


def test_nothing_is_reached_by_default(start, upstream):
    serving = start()

    async def once():
        async with await install(serving):
            pass

    asyncio.run(once())
    status, text = fetch(serving, f"http://127.0.0.1:{upstream}/")
    assert status == 502 and "[runtime.http] allow" in text


# --- daemons


def test_a_daemon_is_listed_and_stopped(web, on):
    async def talk():
        async with await install(web) as client, await install(web, "eve") as other:
            daemon = await client.ask(
                "launch_daemon", port=0, inferlet="http-echo@0.1.0", input='{"x": 1}'
            )
            (listed,) = [
                one
                for one in json.loads(await client.ask("list_processes"))
                if one["process_id"] == daemon
            ]
            assert json.loads(await other.ask("list_processes")) == []
            port = listed["port"]
            about = json.loads(ask(port, "GET", "/about")[1])
            assert (about["user"], about["input"]) == ("ada", '{"x": 1}')
            with pytest.raises(Refused, match="no process"):
                await other.ask("terminate_process", process_id=daemon)
            with pytest.raises(Refused, match="cannot listen"):
                await client.ask("launch_daemon", port=port, inferlet="http-echo@0.1.0", input="{}")
            await client.ask("terminate_process", process_id=daemon)
            with pytest.raises(ConnectionRefusedError):
                ask(port, "GET", "/about")
            # The port is free again.
            again = await client.ask(
                "launch_daemon", port=port, inferlet="http-echo@0.1.0", input="{}"
            )
            assert ask(port, "GET", "/about")[0] == 200
            await client.ask("terminate_process", process_id=again)

    on(talk())


def test_a_daemon_is_restarted(web, on):
    """The newest version answers, on the same port; what was being answered is cancelled."""
    manifest = MANIFEST.replace('"http-echo"', '"http-again"')

    async def talk():
        async with await install(web) as client, await install(web, "eve") as other:
            await install_once(client, "serve-http-rust", manifest)
            daemon = await client.ask(
                "launch_daemon", port=0, inferlet="http-again", input='{"x": 2}'
            )

            async def listed() -> dict:
                found = json.loads(await client.ask("list_processes"))
                return next(one for one in found if one["process_id"] == daemon)

            before = await listed()
            port = before["port"]
            assert before["inferlet"] == "http-again@0.1.0"
            with closing(socket.create_connection(("127.0.0.1", port), LIMIT_S)) as late:
                late.sendall(b"GET /late HTTP/1.1\r\nHost: localhost\r\n\r\n")
                end = time.monotonic() + LIMIT_S
                while instances(web) == 0 and time.monotonic() < end:
                    await asyncio.sleep(0.05)
                await install_once(client, "serve-http-rust", manifest.replace("0.1.0", "0.1.1"))
                with pytest.raises(Refused, match="no daemon"):
                    await other.ask("restart_daemon", process_id=daemon)
                restarted = await client.ask("restart_daemon", process_id=daemon)
                assert restarted == "http-again@0.1.1"
                assert late.recv(1) == b""
            while instances(web) > 0 and time.monotonic() < end:
                await asyncio.sleep(0.05)
            assert instances(web) == 0
            assert await listed() == {**before, "inferlet": "http-again@0.1.1"}
            about = json.loads(ask(port, "GET", "/about")[1])
            assert (about["user"], about["input"]) == ("ada", '{"x": 2}')
            await client.ask("terminate_process", process_id=daemon)
            with pytest.raises(Refused, match="no daemon"):
                await client.ask("restart_daemon", process_id=daemon)

    on(talk())


def test_a_stopped_daemon_takes_no_request_on_an_open_connection(web, on):
    async def talk():
        async with await install(web) as client:
            daemon = await client.ask(
                "launch_daemon", port=0, inferlet="http-echo@0.1.0", input="{}"
            )
            found = json.loads(await client.ask("list_processes"))
            port = next(one["port"] for one in found if one["process_id"] == daemon)
            idle = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
            busy = socket.create_connection(("127.0.0.1", port), LIMIT_S)
            with closing(idle), closing(busy):
                idle.request("GET", "/about")
                assert idle.getresponse().read()
                busy.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
                heard = busy.recv(4096)
                await client.ask("terminate_process", process_id=daemon)
                with pytest.raises(ConnectionError):
                    idle.request("GET", "/about")
                    idle.getresponse()
                # The request that was being answered goes on to its end.
                while piece := busy.recv(4096):
                    heard += piece
                assert b"data: 2" in heard and heard.endswith(b"0\r\n\r\n")

    on(talk())


def test_daemons_of_a_user_leave_room_for_others(web, on):
    async def open_daemon(client: RawClient) -> str:
        return await client.ask("launch_daemon", port=0, inferlet="http-echo@0.1.0", input="{}")

    async def talk():
        async with await install(web, "eve") as client, await install(web, "mallory") as taker:
            taken = []
            with pytest.raises(Refused, match="have reached their share"):
                for _ in range(65):
                    taken.append(await open_daemon(taker))
            await client.ask("terminate_process", process_id=await open_daemon(client))
            for daemon in taken:
                await taker.ask("terminate_process", process_id=daemon)

    on(talk())


def test_only_http_inferlets_are_daemons(web, on):
    async def talk():
        async with await install(web) as client:
            await install_once(client, "serve-session-rust", SESSION_MANIFEST)
            with pytest.raises(Refused, match="answers no HTTP requests"):
                await client.ask("launch_daemon", port=0, inferlet="session@0.1.0", input="{}")
            with pytest.raises(Refused, match="HTTP inferlet"):
                await client.launch("http-echo@0.1.0")

    on(talk())


# --- keys


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
