"""Tests what only the Python SDK has. `do` names the function; ../test_python_sdk.py asks."""

import asyncio
import random
import sys
import time

import older

from inferlet import Context, Model, PieError, Sampler, session
from inferlet.spec import Speculator

GREEDY = Sampler.argmax()


async def main(input: dict) -> object:
    result = globals()[input["do"]]()
    return await result if asyncio.iscoroutine(result) else result


# asyncio


async def structured():
    """A task group: one fails, the other is cancelled, its pass in flight too."""
    ctx = Context(Model.load())
    ended = []

    async def fails():
        await asyncio.sleep(0.005)
        raise ValueError("told to fail")

    async def generates():
        try:
            while True:
                await ctx.append([97] * 40).flush()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(generates())
            group.create_task(fails())
    except* ValueError as failed:
        ended.append(str(failed.exceptions[0]))
    # The context is as it was before the cancelled pass, and goes on.
    before, waiting = ctx.seq_len, len(ctx.buffer())
    await ctx.append([97, 98]).flush()
    return [sorted(ended), waiting, ctx.seq_len - before]


async def timeouts():
    began = time.monotonic()
    try:
        async with asyncio.timeout(0.02):
            await asyncio.Event().wait()
    except TimeoutError:
        return 0.015 < time.monotonic() - began < 1
    return False


async def producer_consumer():
    queue: asyncio.Queue[int] = asyncio.Queue(2)
    got = []

    async def consume():
        while True:
            got.append(await queue.get())
            queue.task_done()

    task = asyncio.create_task(consume())
    for number in range(6):
        await queue.put(number)
    await queue.join()
    task.cancel()
    return got


async def deadlock():
    await asyncio.get_running_loop().create_future()


async def leftovers():
    """A task that is not awaited is cancelled when main returns, and may still clean up."""

    async def background():
        try:
            await asyncio.sleep(60)
        finally:
            session.send("cleaned up")

    task = asyncio.create_task(background())
    await asyncio.sleep(0)
    return f"left {not task.done()}"


async def many_at_once():
    """300 forks generate together; the loop polls all of them."""
    with Context(Model.load()) as prefix:
        await prefix.user("hi").flush()

        async def one(index):
            with prefix.fork() as ctx:
                return (
                    await ctx.append([97 + index % 26])
                    .generate(GREEDY, max_tokens=3)
                    .stop([])
                    .collect_tokens()
                )

        answers = await asyncio.gather(*map(one, range(300)))
    return [len(answers), all(answers[i] == answers[i + 26] for i in range(26))]


# Generation


class Repeater:
    """Drafts that the last tokens come again, right or wrong."""

    def __init__(self):
        self.seen, self.rolled_back = [97, 98, 99], 0

    def draft(self):
        return self.seen[-3:], []

    def accept(self, tokens):
        self.seen += tokens

    def rollback(self, n):
        self.rolled_back += n

    def reset(self):
        self.seen = []


async def speculation():
    """Drafts change the number of passes, never the answer."""
    model = Model.load()
    drafter = Repeater()
    with Context(model) as plain, Context(model) as drafted:
        wanted = await plain.user("hi").generate(GREEDY, max_tokens=40).collect_tokens()
        generator = drafted.user("hi").generate(GREEDY, max_tokens=40, speculator=drafter)
        got = await generator.collect_tokens()
        same_place = (plain.seq_len, plain.buffer()) == (drafted.seq_len, drafted.buffer())
    return [got == wanted, same_place, drafter.rolled_back > 0, isinstance(drafter, Speculator)]


async def conversation():
    """Two turns in one context, across page borders; equal to computing it all at once."""
    model = Model.load()
    with Context(model) as ctx, Context(model) as fresh:
        ctx.system("Be brief.").user("One?")
        first = await ctx.generate(GREEDY, max_tokens=30).collect_tokens()
        second = await ctx.seal().user("Two?").generate(GREEDY, max_tokens=30).collect_tokens()
        fresh.system("Be brief.").user("One?").cue().append(first).seal().user("Two?")
        return second == await fresh.generate(GREEDY, max_tokens=30).collect_tokens()


async def two_passes_on_one_context():
    with Context(Model.load()) as ctx:
        ctx.append([97])
        try:
            await asyncio.gather(ctx.flush(), ctx.forward().input([98]).execute())
        except PieError as error:
            return str(error)


# Blocking calls in an async program, and late imports


blocking = older.blocking
parallel_calls = older.parallel_calls


def late_imports():
    import colorsys
    from fractions import Fraction

    return [colorsys.rgb_to_hsv(1, 0, 0)[2], str(Fraction(1, 3)), time.strptime("7", "%d").tm_mday]


def randomness():
    return random.random()


# Ends


def prints():
    print("to stdout")
    print("to stderr", file=sys.stderr)


def fails():
    try:
        {}["key"]
    except KeyError as error:
        raise ValueError("no key") from error


def exits():
    sys.exit("gave up")


def not_json():
    return object()


def recurses():
    return recurses()
