"""Cases about waiting: timers, the session, messages."""

import asyncio

from table import case

from inferlet import PieError, messaging, session


@case
async def sleep_order() -> list[int]:
    ended: list[int] = []

    async def nap(ms: int) -> None:
        await asyncio.sleep(ms / 1000)
        ended.append(ms)

    await asyncio.gather(nap(30), nap(10), nap(20))
    return ended


@case
async def timeout(ms: int) -> str:
    try:
        return await asyncio.wait_for(session.receive(), ms / 1000)
    except TimeoutError:
        return "timeout"


@case
async def push_pull(topic: str) -> list[str]:
    messaging.push(topic, "one")
    messaging.push(topic, "two")
    return [await messaging.pull(topic), await messaging.pull(topic)]


@case
async def overflow(topic: str, n: int) -> dict:
    with messaging.subscribe(topic) as sub:
        before = sub.dropped
        for i in range(n):
            messaging.broadcast(topic, str(i))
        return {"before": before, "dropped": sub.dropped, "first": await sub.next()}


@case
async def push_wait(topic: str) -> dict:
    def refused() -> bool:
        try:
            messaging.push(topic, "message")
        except PieError:
            return True
        return False

    queued = 0
    while not refused():
        queued += 1
    _, first = await asyncio.gather(messaging.push_wait(topic, "last"), messaging.pull(topic))
    again = refused()
    for _ in range(queued):
        last = await messaging.pull(topic)
    return {"refused": True, "first": first, "refused_again": again, "last": last}


@case
async def broadcast(topic: str) -> str | None:
    with messaging.subscribe(topic) as sub:
        messaging.broadcast(topic, "x")
        return await sub.next()
