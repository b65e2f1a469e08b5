"""HTTP inferlets as daemons on ports of their own."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import time
from contextlib import closing

import pytest
from conftest import SESSION_MANIFEST, install_once
from http_apps import LIMIT_S, MANIFEST, ask, install, instances, with_http
from raw_client import RawClient, Refused


@pytest.fixture(scope="module")
def web(start):
    """A server with the program of these tests."""
    return with_http(start())


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
    """The newest version answers on the same port. Requests in flight are cancelled."""
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
                # A request that is being answered is completed.
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
