"""An asyncio event loop over `wasi:io/poll` and `wasi:clocks/monotonic-clock`.

`gather`, `sleep`, `wait_for`, `timeout`, `TaskGroup`, queues and locks work as everywhere. There
are no sockets, threads, signals or subprocesses here; `to_thread` runs its function in place.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import sys
import traceback
import weakref
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from wit_world.imports import monotonic_clock, poll

# Rounds of ready callbacks between two looks at pollables and timers, so that a task that never
# sleeps cannot starve those that wait.
ROUNDS_WITHOUT_LOOK = 8
# Cancelled timers (every `wait_for` that succeeds leaves one) are swept beyond this many.
CANCELLED_TIMERS_KEPT = 64


class Deadlock(RuntimeError):
    """Every task waits for another one, so that nothing can wake the inferlet."""


class Loop(asyncio.AbstractEventLoop):
    def __init__(self) -> None:
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_ids = itertools.count()
        self._timers_cancelled = 0
        self._waiting: dict[asyncio.Future[None], Any] = {}  # future -> pollable, owned by waiter
        self._rounds = 0
        self._running = False
        self._stopping = False
        self._closed = False
        self._task_factory: Any = None
        self._exception_handler: Any = None
        self._asyncgens: weakref.WeakSet[Any] = weakref.WeakSet()

    # Waiting on the host.

    def until(self, pollable: Any) -> asyncio.Future[None]:
        """A future that is done when `pollable` is ready. The caller owns the pollable, and calls
        `forget` before dropping it."""
        future: asyncio.Future[None] = asyncio.Future(loop=self)
        self._waiting[future] = pollable
        return future

    def forget(self, future: asyncio.Future[None]) -> None:
        self._waiting.pop(future, None)

    @property
    def alone(self) -> bool:
        """Whether no task but the running one can run, so that blocking it delays no other."""
        return not (self._ready or self._waiting or self._timers)

    def _wake(self, future: asyncio.Future[None]) -> None:
        del self._waiting[future]
        future.set_result(None)

    def _look(self, *, block: bool) -> None:
        """Marks ready waits and due timers; waits for the first of them if `block`."""
        self._rounds = 0
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
            self._timers_cancelled -= 1
        # A wait that was just cancelled is not polled: its owner is about to drop the pollable.
        waits = [(f, p) for f, p in self._waiting.items() if not f.done()]
        if block:
            self._block(waits, timers[0][0] if timers else None)
        else:
            for future, pollable in waits:
                if pollable.ready():
                    self._wake(future)
        if timers:
            now = self.time()
            while timers and timers[0][0] <= now:
                handle = heapq.heappop(timers)[2]
                if handle.cancelled():
                    self._timers_cancelled -= 1
                else:
                    self._ready.append(handle)

    def _block(self, waits: list[tuple[asyncio.Future[None], Any]], when: float | None) -> None:
        if when is None and len(waits) == 1:  # the common case, without building a list
            waits[0][1].block()
            self._wake(waits[0][0])
            return
        if when is None and not waits:
            raise Deadlock("deadlock: every task of this inferlet waits for another one")
        pollables = [pollable for _, pollable in waits]
        timer = None
        if when is not None:
            # Rounded up: a timer must not find itself a fraction of a nanosecond early.
            timer = monotonic_clock.subscribe_instant(max(0, int(when * 1e9) + 1))
            pollables.append(timer)
        try:
            for index in poll.poll(pollables):
                if index < len(waits):
                    self._wake(waits[index][0])
        finally:
            if timer is not None:
                timer.__exit__(None, None, None)

    # Running.

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """Runs `main`, then cancels the tasks that it left behind and closes the loop."""
        try:
            return self.run_until_complete(main)
        finally:
            self._cancel_leftovers()
            self.run_until_complete(self.shutdown_asyncgens())
            self.close()

    def run_until_complete(self, future: Any) -> Any:
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(self._stop_when_done)
        try:
            self.run_forever()
        except BaseException:
            if task.done() and not task.cancelled():
                task.exception()  # marks it as seen: it is being raised
            raise
        finally:
            task.remove_done_callback(self._stop_when_done)
        if not task.done():
            raise RuntimeError("the loop was stopped before its main task ended")
        return task.result()

    def _stop_when_done(self, _: Any) -> None:
        self._stopping = True

    def run_forever(self) -> None:
        if self._running or events._get_running_loop() is not None:
            raise RuntimeError("an event loop is already running; use `await` instead")
        old_hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._asyncgens.add, finalizer=self._finalize_asyncgen)
        events._set_running_loop(self)
        self._running, self._stopping = True, False
        try:
            while not self._stopping:
                self._round()
        finally:
            self._running = False
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*old_hooks)

    def _round(self) -> None:
        ready = self._ready
        if not ready:
            self._look(block=True)
        elif self._rounds >= ROUNDS_WITHOUT_LOOK:
            self._look(block=False)
        self._rounds += 1
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _cancel_leftovers(self) -> None:
        tasks = asyncio.all_tasks(self)
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        self.run_until_complete(_settle(tasks))
        for task in tasks:
            if not task.cancelled() and task.exception() is not None:
                self.call_exception_handler(
                    {
                        "message": "a task failed while it was being cancelled",
                        "exception": task.exception(),
                    }
                )

    def stop(self) -> None:
        self._stopping = True

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def time(self) -> float:
        return monotonic_clock.now() / 1e9

    # Callbacks and timers.

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # one thread

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> Any:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._timer_ids), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._timers_cancelled += 1
        if self._timers_cancelled > max(CANCELLED_TIMERS_KEPT, len(self._timers) // 2):
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    # Tasks and futures.

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> Any:
        if self._task_factory is not None:
            return self._task_factory(self, coro, **options)
        return asyncio.Task(coro, loop=self, **options)

    def set_task_factory(self, factory: Any) -> None:
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        return self._task_factory

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Calls the function at once: there is only one thread."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    # Async generators.

    def _finalize_asyncgen(self, generator: Any) -> None:
        self._asyncgens.discard(generator)
        if not self._closed:
            self.create_task(generator.aclose())

    async def shutdown_asyncgens(self) -> None:
        for generator in list(self._asyncgens):
            await generator.aclose()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        return None

    # Errors that no task awaited.

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        return None

    def set_exception_handler(self, handler: Any) -> None:
        self._exception_handler = handler

    def get_exception_handler(self) -> Any:
        return self._exception_handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._exception_handler is not None:
            self._exception_handler(self, context)
        else:
            self.default_exception_handler(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        print(f"asyncio: {context.get('message', 'unhandled error')}", file=sys.stderr)
        error = context.get("exception")
        if error is not None:
            traceback.print_exception(error, file=sys.stderr)


async def _settle(tasks: set[Any]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
