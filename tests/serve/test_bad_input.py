"""Clients that send malformed, false or too many frames get errors and disturb no other client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import socket
import struct
import time

import blake3
import msgpack
import pytest
import websockets
from conftest import SESSION, SESSION_MANIFEST, component, session_client
from raw_client import LIMIT_S, RawClient, Refused


async def raw_frame(server, frame: bytes | str) -> websockets.Close | None:
    """Sends one frame as an authenticated client. Returns code and reason if it was closed."""
    client = await RawClient.connect(server.uri)
    try:
        with contextlib.suppress(websockets.ConnectionClosed):
            await client.socket.send(frame)
        await asyncio.wait_for(client.closed.wait(), LIMIT_S)
    except TimeoutError:
        await client.close()
        return None
    return client.socket.close_code, client.socket.close_reason


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",
        b"\x81",
        msgpack.packb(7),
        msgpack.packb(["ping"]),
        msgpack.packb({"corr_id": "x", "type": "ping"}),
        msgpack.packb({"type": "signal_process"}),
        msgpack.packb({"type": {"deep": {"er": 1}}}),
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xa1a" + b"\x91" * 100_000,
        "text is no message",
    ],
    ids=range(11),
)
def test_frames_that_are_no_message_end_the_connection_with_a_reason(server, on, frame):
    code, reason = on(raw_frame(server, frame))
    assert code == 1008
    assert reason


def test_an_oversized_frame_ends_the_connection(server, on):
    code, _ = on(raw_frame(server, b"\xc6" + struct.pack(">I", 20 << 20) + bytes(20 << 20)))
    assert code in (1009, 1006)


def test_wrong_fields_are_answered_and_the_connection_lives(server, on):
    async def talk():
        async with await RawClient.connect(server.uri) as client:
            answers = [
                await client.request("ping", type_of="nothing"),
                await client.request("dance"),
                await client.request("launch_process"),
                await client.request("launch_process", inferlet=7, input="", capture_outputs=True),
                await client.request("attach_process", process_id=b"bytes"),
                await client.request("query", subject="nothing", record=""),
                await client.request(
                    "launch_process", inferlet="nobody", input="{}", capture_outputs=True
                ),
                await client.request("launch_daemon", port=80, inferlet="x", input=""),
                await client.request("register_mcp_server", name="", transport="stdio"),
            ]
            assert await client.ask("ping") == "Pong"
            return answers

    answers = on(talk())
    assert answers[0]["ok"]
    for answer in answers[1:]:
        assert not answer["ok"] and answer["result"], answer


def test_nothing_is_answered_before_auth(server, on):
    async def talk():
        client = await RawClient.connect(server.uri, user=None)
        with pytest.raises(ConnectionError):
            await client.ask("ping")
        return client.socket.close_code, client.socket.close_reason

    assert on(talk()) == (1008, "ping is not allowed before authentication")


def test_uploads_that_lie(server, on):
    wasm = component("serve-session-rust")
    good = {
        "program_hash": blake3.blake3(wasm).hexdigest(),
        "manifest": SESSION_MANIFEST.replace('"session"', '"liar"'),
        "force_overwrite": False,
        "chunk_index": 0,
        "total_chunks": 1,
        "chunk_data": wasm,
    }

    async def talk():
        async with await RawClient.connect(server.uri) as client:
            lies = [
                {"program_hash": "0" * 64},
                {"program_hash": "no hash"},
                {"total_chunks": 0},
                {"chunk_index": 3, "total_chunks": 9},
                {"total_chunks": 2**32 - 1},
                {"manifest": ""},
                {"manifest": "[package]\nname = '../x'\nversion = '0.1.0'"},
                {"chunk_data": wasm[:-100], "program_hash": blake3.blake3(wasm[:-100]).hexdigest()},
            ]
            for lie in lies:
                with pytest.raises(Refused):
                    await client.ask("add_program", **{**good, **lie})
            found = await client.ask("check_program", name="liar", version="0.1.0")
            assert await client.ask("ping") == "Pong"
            return found

    assert on(talk()) == "false"


def test_an_upload_past_the_limit(start, on):
    server = start(config="[runtime]\nmax_upload_mb = 1\n")

    async def talk():
        async with await RawClient.connect(server.uri) as client:
            with pytest.raises(Refused, match="1 MiB"):
                await client.install(os.urandom(3 << 20), SESSION_MANIFEST)
            return await client.ask("ping")

    assert on(talk()) == "Pong"


def test_half_a_request_and_garbage_on_the_port(server, on):
    for data in (b"", b"GET / HT", b"\x16\x03\x01\x02\x00", os.urandom(4096), b"A" * 100_000):
        with (
            socket.create_connection(("127.0.0.1", server.port)) as plain,
            contextlib.suppress(OSError),
        ):
            plain.sendall(data)

    async def talk():
        async with await RawClient.connect(server.uri) as client:
            return await client.ask("ping")

    assert on(talk()) == "Pong"


def test_a_flood_of_requests_is_answered_in_order_of_what_is_read(server, on):
    """The server does not read from a client that does not read. It loses no answer by that."""

    async def talk():
        async with await RawClient.connect(server.uri) as client:
            return await asyncio.gather(*(client.ask("ping") for _ in range(20_000)))

    assert on(talk()) == ["Pong"] * 20_000


def test_a_client_that_reads_nothing_slows_nobody(server, on):
    async def talk():
        lazy = await websockets.connect(server.uri, compression=None, max_queue=1)
        await lazy.send(msgpack.packb({"type": "auth_identify", "corr_id": 1, "username": "ada"}))
        await lazy.recv()
        async with await session_client(server) as client:
            torrent = json.dumps({"do": "print", "n": 10_000_000})
            await lazy.send(
                msgpack.packb(
                    {
                        "type": "launch_process",
                        "corr_id": 2,
                        "inferlet": SESSION,
                        "input": torrent,
                        "capture_outputs": True,
                    }
                )
            )
            await asyncio.sleep(1)
            before = memory_of(server)
            events = await client.until_end(
                await client.launch(SESSION, json.dumps({"do": "count", "n": 1000}))
            )
            await asyncio.sleep(1)
            grown = memory_of(server) - before
        lazy.transport.abort()
        return events, grown

    events, grown = on(talk())
    assert events[-1] == ("return", "1000")
    assert grown < 64 << 20


def memory_of(server) -> int:
    with open(f"/proc/{server.process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_connections_past_the_limit_are_refused_and_others_live(start, on):
    server = start(config="[server]\nmax_connections = 20\n")

    async def talk():
        async with await RawClient.connect(server.uri) as client:
            tried = await asyncio.gather(
                *(RawClient.connect(server.uri) for _ in range(40)), return_exceptions=True
            )
            assert sum(isinstance(one, RawClient) for one in tried) == 19
            assert await client.ask("ping") == "Pong"
            for one in tried:
                if isinstance(one, RawClient):
                    await one.close()
            await asyncio.sleep(0.5)
            async with await RawClient.connect(server.uri) as again:
                return await again.ask("ping")

    assert on(talk()) == "Pong"


def test_strangers_give_way_when_all_places_are_taken(start, on):
    server = start(config="[server]\nmax_connections = 20\nauth_timeout_secs = 600\n")

    async def talk():
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                async with await RawClient.connect(server.uri) as client:
                    return await client.ask("ping")
            except (OSError, websockets.WebSocketException):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.2)
            finally:
                assert len(silent) == 20

    assert on(talk()) == "Pong"


def test_a_client_that_answers_no_ping_is_gone(start, on):
    """With a half-open socket, the process learns that its client left, and another can attach."""
    server = start(config="[server]\nping_secs = 1\n")

    async def talk():
        client = await session_client(server)
        process = await client.launch(SESSION, json.dumps({"do": "echo"}))
        client.socket.transport.pause_reading()  # behaves like a broken connection
        await asyncio.sleep(4)
        async with await RawClient.connect(server.uri) as back:
            await back.ask("attach_process", process_id=process)
            return await back.until_end(process)

    assert on(talk()) == [("return", "the client left")]


def test_strangers_who_say_nothing_are_closed(start, on):
    server = start(config="[server]\nauth_timeout_secs = 1\n")

    async def talk():
        silent = await RawClient.connect(server.uri, user=None)
        known = await RawClient.connect(server.uri)
        await asyncio.wait_for(silent.closed.wait(), LIMIT_S)
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            plain.settimeout(LIMIT_S)
            assert await asyncio.to_thread(plain.recv, 1) == b"", "closed without an answer"
        assert await known.ask("ping") == "Pong"
        return silent.socket.close_code

    assert on(talk()) == 1008


def test_random_frames_from_a_known_client(server, on):
    """Thousands of damaged frames: each is answered or ends its connection; the server lives."""

    async def talk():
        chance = random.Random(7)
        seeds = [
            msgpack.packb({"type": "ping", "corr_id": 1}),
            msgpack.packb(
                {
                    "type": "launch_process",
                    "corr_id": 1,
                    "inferlet": "x",
                    "input": "{}",
                    "capture_outputs": True,
                }
            ),
            msgpack.packb(
                {
                    "type": "transfer_file",
                    "process_id": "p",
                    "file_hash": "a",
                    "chunk_index": 0,
                    "total_chunks": 1,
                    "chunk_data": b"x",
                }
            ),
        ]
        for _ in range(60):
            socket = await websockets.connect(server.uri, compression=None)
            await socket.send(
                msgpack.packb({"type": "auth_identify", "corr_id": 1, "username": "ada"})
            )
            try:
                for _ in range(50):
                    frame = bytearray(chance.choice(seeds))
                    for _ in range(chance.randrange(1, 4)):
                        frame[chance.randrange(len(frame))] = chance.randrange(256)
                    await socket.send(bytes(frame))
            except websockets.ConnectionClosed:
                continue
            await socket.close()
        async with await RawClient.connect(server.uri) as client:
            return await client.ask("ping")

    assert on(talk()) == "Pong"
