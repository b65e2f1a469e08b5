"""Browser pages that send requests to HTTP inferlets: origins, host names, documents."""

from __future__ import annotations

import json

import browser
import pytest
from http_apps import ABOUT, ask, headers_of, install, with_http


@pytest.fixture(scope="module")
def web(start):
    """A server with the program of these tests."""
    return with_http(start())


def test_a_page_of_another_origin_is_refused(web):
    assert ask(web.port, "GET", ABOUT, Origin="https://evil.example")[0] == 403
    assert ask(web.port, "GET", ABOUT, Origin="http://localhost:3000")[0] == 200
    # A browser sends no Origin header when a page of another site loads an image.
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


def test_documents_of_inferlets_have_a_policy(web, start):
    """These documents share the origin of the server's page, and must not act as its user."""
    status, headers = headers_of(web.port, "GET", "/apps/http-echo/page")
    sent = dict(headers)
    assert status == 200 and sent["content-type"] == "text/html"
    assert f" 127.0.0.1:{web.port}/apps/http-echo/" in sent["content-security-policy"]
    assert sent["x-content-type-options"] == "nosniff"
    assert not {"set-cookie", "service-worker-allowed", "clear-site-data"} & set(sent)
    assert ask(web.port, "GET", ABOUT, Origin="null")[0] == 403

    trusting = with_http(start(config='[server]\ntrusted_apps = ["http-echo"]\n'))
    sent = dict(headers_of(trusting.port, "GET", "/apps/http-echo@0.1.0/page")[1])
    assert "content-security-policy" not in sent and sent["set-cookie"] == "a=b"


def test_a_document_at_the_ipv6_loopback_moves_to_localhost(web):
    """No policy can name [::1], so a document's scripts could not send a request there."""
    host = {"Host": f"[::1]:{web.port}"}
    opened = {**host, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    status, headers = headers_of(web.port, "GET", "/apps/http-echo/page?a=b", **opened)
    assert status == 307
    assert dict(headers)["location"] == f"http://localhost:{web.port}/apps/http-echo/page?a=b"
    assert headers_of(web.port, "GET", ABOUT, **host)[0] == 200  # not opened as a document


def test_documents_of_inferlets_in_a_browser(web, start):
    """A document's scripts can send requests to the inferlet, and to nothing that belongs to the
    page.
    """
    script = "(path) => fetch(path, {method: 'POST', headers: {'content-type': 'application/json'},"
    script += " body: '{}'}).then((answer) => answer.text(), () => 'refused')"
    connect = (
        "(path) => new Promise((done) => {"
        " try { const socket = new WebSocket(`ws://${location.host}${path}`);"
        " socket.onopen = () => done('open'); socket.onerror = () => done('refused') }"
        " catch (error) { done('refused') } })"
    )
    trusting = with_http(start(config='[server]\ntrusted_apps = ["http-echo"]\n'))
    with browser.opened() as opened:
        page = opened.new_page()
        page.goto(f"http://127.0.0.1:{web.port}/apps/http-echo/page")
        assert page.evaluate(script, "/apps/http-echo/echo") == "{}"
        assert page.evaluate(script, "/metrics") == "refused"
        assert page.evaluate(connect, "/") == "refused"
        assert page.evaluate(connect, "/apps/http-echo/") == "refused"
        # They cannot do it through another document of this origin either.
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


def test_pages_of_origins_in_the_config(start):
    origin = "https://app.example"
    config = f'[server]\nallowed_origins = ["{origin}"]\n[server.routes]\n"/v1" = "http-echo"\n'
    server = with_http(start(config=config))
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
