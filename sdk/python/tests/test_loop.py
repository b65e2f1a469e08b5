import asyncio

import engine
import pytest

from inferlet import _async, messaging, session
from inferlet._loop import Deadlock


def run(coro):
    return _async.run(coro)


def test_sleeps_end_in_their_order():
    ended = []

    async def nap(ms):
        await asyncio.sleep(ms / 1000)
        ended.append(ms)

    async def main():
        await asyncio.gather(nap(30), nap(10), nap(20))

    run(main())
    assert ended == [10, 20, 30]
    assert engine.state.now == pytest.approx(30e6, abs=1e3)


def test_waits_of_several_tasks_are_polled_together():
    async def main():
        messaging.push("b", "later")
        first = asyncio.create_task(messaging.pull("a"))
        second = asyncio.create_task(messaging.pull("b"))
        assert await second == "later"
        messaging.push("a", "at last")
        return await first

    assert run(main()) == "at last"


def test_timeout_drops_the_pollable_and_its_future():
    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.receive(), 0.05)
        return engine.left_behind()

    assert run(main()) == []


def test_timeout_scope_and_success_leave_no_timer_behind():
    async def main():
        async with asyncio.timeout(1):
            await asyncio.sleep(0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(1)

    run(main())
    assert engine.state.now < 0.1e9


def test_many_timeouts_do_not_pile_up():
    loop = _async.Loop()

    async def main():
        for _ in range(1000):
            async with asyncio.timeout(3600):
                await asyncio.sleep(0)
        return len(loop._timers)

    assert loop.run(main()) < 200


def test_task_group_cancels_the_others():
    seen = []

    async def fails():
        await asyncio.sleep(0.01)
        raise ValueError("no")

    async def waits():
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            group.create_task(waits())

    with pytest.raises(ExceptionGroup):
        run(main())
    assert seen == ["cancelled"]


def test_a_busy_task_does_not_starve_a_wait():
    async def main():
        waiting = asyncio.create_task(session.receive())
        await asyncio.sleep(0)
        engine.state.inbox.append("hi")
        for _ in range(100):
            if waiting.done():
                return waiting.result()
            await asyncio.sleep(0)
        return "starved"

    assert run(main()) == "hi"


def test_leftover_tasks_are_cancelled_at_the_end():
    ended = []

    async def background():
        try:
            await session.receive()
        finally:
            ended.append(True)

    async def main():
        task = asyncio.create_task(background())
        await asyncio.sleep(0)
        return task

    assert run(main()).cancelled()
    assert ended == [True]


def test_waiting_for_nobody_is_an_error():
    async def main():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        run(main())


def test_exceptions_reach_the_caller():
    async def main():
        raise KeyError("x")

    with pytest.raises(KeyError):
        run(main())


def test_async_generators_are_closed():
    closed = []

    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    async def main():
        async for _ in numbers():
            break

    run(main())
    assert closed == [True]


def test_to_thread_runs_in_place():
    async def main():
        return await asyncio.to_thread(lambda: 7)

    assert run(main()) == 7


def test_queues_and_locks():
    async def main():
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        lock = asyncio.Lock()

        async def produce():
            for i in range(5):
                async with lock:
                    await queue.put(i)

        task = asyncio.create_task(produce())
        got = [await queue.get() for _ in range(5)]
        await task
        return got

    assert run(main()) == [0, 1, 2, 3, 4]


def test_outside_a_loop_the_same_calls_block():
    messaging.push("t", "one")
    assert messaging.pull("t") == "one"
    engine.state.inbox.append("hello")
    assert session.receive() == "hello"


def test_push_wait_waits_in_a_plain_program(monkeypatch):
    tried = []

    def push(topic, message):
        tried.append(message)
        if len(tried) < 3:
            raise engine.Err("the queue is full: it holds 100 messages")

    monkeypatch.setattr(messaging.wit, "push", push)
    messaging.push_wait("t", "one")
    assert tried == ["one"] * 3
    assert engine.state.now == 3_000_000  # 1 ms, then 2 ms


def test_messages_that_are_no_texts_go_out_as_json():
    messaging.push("t", {"a": "é"})
    assert messaging.pull("t") == '{"a": "é"}'
    with messaging.subscribe("t") as sub:
        messaging.broadcast("t", [1, 2])
        assert sub.next() == "[1, 2]"
    del sub


def test_a_client_that_is_gone():
    engine.state.client_gone = True
    with pytest.raises(ConnectionError):
        session.receive()


def test_subscriptions():
    async def main():
        sub = messaging.subscribe("t")
        messaging.broadcast("t", "x")
        assert await sub.next() == "x"
        waiting = asyncio.create_task(sub.next())
        await asyncio.sleep(0.001)
        sub.unsubscribe()
        return await waiting

    assert run(main()) is None
    with messaging.subscribe("t") as sub:
        messaging.broadcast("t", "y")
        for message in sub:
            assert message == "y"
            break
    del sub
