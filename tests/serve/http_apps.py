"""A server with the HTTP inferlet of tests/serve/http, and a client of that inferlet."""

from __future__ import annotations

import asyncio
import http.client
from contextlib import closing

from conftest import ROOT, Serving, install_once
from raw_client import RawClient

MANIFEST = (ROOT / "tests/serve/http/rust/Pie.toml").read_text()
LIMIT_S = 120
ABOUT = "/apps/http-echo/about"


async def install(server, user: str = "ada") -> RawClient:
    client = await RawClient.connect(server.uri, user)
    await install_once(client, "serve-http-rust", MANIFEST)
    return client


def with_http(serving: Serving) -> Serving:
    """Installs the inferlet."""

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


def headers_of(port: int, method: str, path: str, **headers: str) -> tuple[int, list]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)) as connection:
        connection.request(method, path, None, headers)
        response = connection.getresponse()
        response.read()
        return response.status, [(name.lower(), value) for name, value in response.getheaders()]


def instances(web) -> int:
    metrics = ask(web.port, "GET", "/metrics")[1].decode()
    return int(
        next(line for line in metrics.splitlines() if line.startswith("pie_instances ")).split()[1]
    )
