"""The messages that a client and its process exchange, as the guide on sessions describes them."""

from __future__ import annotations

import asyncio
import json

import pytest
from conftest import SESSION, session_client
from raw_client import RawClient, Refused


def do(what: str, **more) -> str:
    return json.dumps({"do": what, **more})


def test_everything_that_can_be_said_comes_in_order(server, on):
    async def talk():
        async with await session_client(server) as client:
            return await client.until_end(await client.launch(SESSION, do("speak")))

    assert on(talk()) == [
        ("stdout", "text"),
        ("stdout", '{"event":"tick","n":3}'),
        ("stdout", "printed\n"),
        ("stderr", "complained\n"),
        ("file", b"\x00\x01\xff"),
        ("return", '{"spoken":5}'),
    ]


def test_errors_and_panics_end_with_an_error(server, on):
    async def talk():
        async with await session_client(server) as client:
            failed = await client.until_end(await client.launch(SESSION, do("fail")))
            panicked = await client.until_end(await client.launch(SESSION, do("panic")))
            return failed, panicked

    failed, panicked = on(talk())
    assert failed == [("error", "it failed as asked")]
    assert panicked[-1][0] == "error" and "as asked" in panicked[-1][1]


def test_signals_are_messages_in_order(server, on):
    async def talk():
        async with await session_client(server) as client:
            process = await client.launch(SESSION, do("echo"))
            for i in range(200):
                await client.send("signal_process", process_id=process, message=f"m{i}")
            await client.send("signal_process", process_id=process, message="stop")
            return await client.until_end(process)

    assert on(talk()) == [*(("stdout", f"m{i}") for i in range(200)), ("return", "stopped")]


@pytest.mark.parametrize("size", [0, 1, 256 * 1024, 256 * 1024 + 1, 3_000_000])
def test_a_file_there_and_back(server, on, size):
    async def talk():
        async with await session_client(server) as client:
            process = await client.launch(SESSION, do("echo-file"))
            data = bytes(i % 251 for i in range(size))
            await client.send_file(process, data)
            return data, await client.until_end(process)

    data, events = on(talk())
    assert events == [("file", data), ("return", str(size))]


def test_a_file_may_come_before_it_is_asked_for(server, on):
    async def talk():
        async with await session_client(server) as client:
            process = await client.launch(SESSION, do("echo-file", wait_ms=300))
            await client.send_file(process, b"early")
            return await client.until_end(process)

    assert on(talk())[0] == ("file", b"early")


def test_a_file_that_lies_about_its_hash_is_refused_and_the_next_arrives(server, on):
    async def talk():
        async with await session_client(server) as client:
            process = await client.launch(SESSION, do("echo-file"))
            await client.send_file(process, b"liar", file_hash="0" * 64)
            await client.send_file(process, b"honest")
            return await client.until_end(process)

    events = on(talk())
    assert events[0][0] == "stderr" and "hash" in events[0][1]
    assert events[1:] == [("file", b"honest"), ("return", "6")]


def test_receive_gives_nothing_when_the_client_is_gone(server, on):
    async def talk():
        client = await session_client(server)
        process = await client.launch(SESSION, do("echo"))
        await client.send("signal_process", process_id=process, message="hello")
        assert await client.event(process) == ("stdout", "hello")
        await client.close()
        async with await RawClient.connect(server.uri) as back:
            await back.until_gone(process)  # or the process could take this client for its own
            await back.ask("attach_process", process_id=process)
            return await back.until_end(process)

    assert on(talk()) == [("return", "the client left")]


def test_nothing_is_lost_or_doubled_over_closing_and_attaching(server, on):
    async def talk():
        client = await session_client(server)
        process = await client.launch(SESSION, do("count", n=400, pause_us=2000))
        heard = []
        while True:
            heard.append(await client.event(process))
            if heard[-1][0] == "return":
                return heard
            if len(heard) % 37 == 0:
                await client.close()
                # Frames that arrived while the connection closed count, too.
                while not client.queue(process).empty():
                    heard.append(await client.event(process))
                if heard[-1][0] == "return":
                    return heard
                client = await RawClient.connect(server.uri)
                await client.ask("attach_process", process_id=process)

    assert on(talk()) == [*(("stdout", str(i)) for i in range(400)), ("return", "400")]


def test_with_numbers_nothing_is_lost_even_when_the_wire_is_cut(server, on):
    """Events in flight when the connection breaks are sent again, and none arrives twice."""

    async def talk():
        client = await session_client(server)
        process = await client.launch(SESSION, do("count", n=3000, pause_us=200), seen=0)
        heard = []
        cut = 50
        while True:
            frame = await asyncio.wait_for(client.queue(process).get(), 30)
            assert frame["seq"] == len(heard) + 1
            heard.append(frame["value"])
            if frame["event"] == "return":
                return heard
            if len(heard) >= cut:
                cut = len(heard) + 333
                client.abort()
                client = await RawClient.connect(server.uri)
                await client.ask("attach_process", process_id=process, seen=len(heard))

    assert on(talk()) == [*(str(i) for i in range(3000)), "3000"]


def test_a_process_goes_on_alone_and_its_newest_events_wait(server, on):
    async def talk():
        client = await session_client(server)
        process = await client.launch(SESSION, do("count", n=6000, wait_ms=500))
        await client.close()
        await asyncio.sleep(2)
        async with await RawClient.connect(server.uri) as back:
            await back.ask("attach_process", process_id=process)
            return await back.until_end(process)

    events = on(talk())
    kept = [value for kind, value in events if kind == "stdout"]
    assert events[-1] == ("return", "6000")
    assert kept == [str(i) for i in range(6000 - len(kept), 6000)]
    assert len(kept) <= 4096
    assert events[0][0] == "stderr" and "dropped" in events[0][1]


def test_only_its_own_user_finds_a_process(server, on):
    async def talk():
        async with await session_client(server) as ada, await session_client(server, "eve") as eve:
            process = await ada.launch(SESSION, do("echo"))
            for kind in ("attach_process", "terminate_process"):
                with pytest.raises(Refused, match="no process"):
                    await eve.ask(kind, process_id=process)
            with pytest.raises(Refused, match="no process"):
                await eve.ask("signal_process", process_id=process, message="stop")
            assert json.loads(await eve.ask("list_processes")) == []
            own = json.loads(await ada.ask("list_processes"))
            assert process in [entry["process_id"] for entry in own]
            await ada.ask("signal_process", process_id=process, message="stop")
            return await ada.until_end(process)

    assert on(talk()) == [("return", "stopped")]


def test_terminate(server, on):
    async def talk():
        async with await session_client(server) as client:
            ends = []
            for what in ("forever", "spin", "echo"):
                process = await client.launch(SESSION, do(what))
                await client.ask("terminate_process", process_id=process)
                ends.append(await client.until_end(process))
            return ends

    assert on(talk()) == [[("error", "cancelled")]] * 3


def test_token_budget(server, on):
    async def talk():
        async with await session_client(server) as client:
            enough = await client.launch(SESSION, do("generate", n=20), token_budget=1000)
            short = await client.launch(SESSION, do("generate", n=20), token_budget=30)
            return await client.until_end(enough), await client.until_end(short)

    enough, short = on(talk())
    assert enough[-1] == ("return", "20")
    assert short[-1][0] == "error" and "token budget" in short[-1][1]


def test_outputs_that_are_not_captured(server, on):
    async def talk():
        async with await session_client(server) as client:
            process = await client.launch(SESSION, do("speak"), capture_outputs=False)
            return await client.until_end(process)

    kinds = [kind for kind, _ in on(talk())]
    assert kinds == ["stdout", "stdout", "file", "return"]


def test_a_program_knows_its_user(server, on):
    async def talk():
        async with await session_client(server, "grace") as client:
            return await client.until_end(await client.launch(SESSION, do("user")))

    assert on(talk()) == [("return", "grace")]


@pytest.mark.parametrize("what", ["count", "print_numbers"])
def test_a_torrent_arrives_whole(server, on, what):
    """A process that sends faster than its client reads has to wait, so nothing is dropped."""

    async def talk():
        async with await session_client(server) as client:
            return await client.until_end(await client.launch(SESSION, do(what, n=50_000)))

    events = on(talk())
    assert events[-1] == ("return", "50000")
    text = "".join(
        value.replace("\n", " ") + (" " if what == "count" else "") for _, value in events[:-1]
    )
    assert text.split() == [str(i) for i in range(50_000)]
