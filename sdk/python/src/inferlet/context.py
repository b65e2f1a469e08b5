"""Context: a token sequence with its KV cache, and a buffer of tokens that are not in it yet."""

from __future__ import annotations

from collections.abc import Generator as Scope
from collections.abc import Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from wit_world.imports import bidding, caching, fallible
from wit_world.imports import chat as wit_chat
from wit_world.imports import context as wit
from wit_world.imports import inference as wit_inference
from wit_world.imports.turns import Kind

from . import _check, tools
from ._async import block_on, waits
from ._pages import RELEASED, Pages
from ._turns import Turns, turn
from .errors import PieError, ask
from .events import Decoder, Event, EventStream
from .forward import Forward, run_pass
from .generator import GenerateOptions, Generator, TokenStream
from .model import Model, raw_of
from .pages import RawContext
from .sampler import Sampler

if TYPE_CHECKING:
    from typing import Self

# The older API names these here.
__all__ = ["Context", "Decoder", "Event", "EventStream", "TokenStream"]


ABSENT = "no snapshot is named "  # how the engine's error for an absent name begins


class Context:
    """Fill it (`system`, `user`, `append`, …), then `generate` or run passes of your own.

    Filling only buffers; tokens reach the model with `flush`, or with the first generated step.
    Pages are given back when the object goes: at once with `release` or at the end of a `with`.
    """

    def __init__(self, model: Model, name: str | None = None, *, _raw: Any = None) -> None:
        handle = raw_of(model)
        self.model = model
        self.name = None if name is None else _check.text("name", name)
        """A label of yours, and the default name for `save`."""
        self._raw = ask(wit.Context.create, handle) if _raw is None else _raw
        self._pages = Pages(self._raw)
        self._step_owner: Any = None  # the generator that may repeat the last pass
        self._buffer: list[int] = []
        self._turns = Turns(in_the_middle=_raw is not None)
        self._cued_at: int | None = None  # the length at which `cue` opened the model's turn
        self._in_pass = False
        self._idle = 0  # open `with ctx.idle()` blocks

    # Construction and lifecycle.

    @classmethod
    def open(cls, model: Model, name: str) -> Self | None:
        """A copy of a saved snapshot, or None if there is none of that name. A snapshot that cannot
        be read is a PieError."""
        return cls._saved(wit.Context.open, model, name)

    @classmethod
    def take(cls, model: Model, name: str) -> Self | None:
        """Does the same as `open` and deletes the snapshot."""
        return cls._saved(wit.Context.take, model, name)

    @classmethod
    def _saved(cls, how: Any, model: Model, name: str) -> Self | None:
        try:
            return cls(model, name, _raw=ask(how, raw_of(model), _check.text("name", name)))
        except PieError as error:
            if str(error).startswith(ABSENT):
                return None
            raise

    @staticmethod
    def delete(model: Model, name: str) -> None:
        """Removes a saved snapshot."""
        ask(wit.Context.delete, raw_of(model), _check.text("name", name))

    def fork(self, name: str | None = None) -> Self:
        """A copy-on-write clone, with a copy of the buffer."""
        clone = type(self)(self.model, name, _raw=ask(self._live().fork))
        clone._buffer = self._buffer.copy()
        clone._turns = self._turns.copy()
        clone._cued_at = self._cued_at
        return clone

    def save(self, name: str | None = None) -> None:
        """Saves all tokens, buffered ones too, under a name: this context's own by default. A
        snapshot of that name is replaced."""
        name = self.name if name is None else name
        if name is None:
            raise ValueError("save() needs a name: ctx.save('name')")
        with self._whole() as raw:
            ask(raw.save, _check.text("name", name))

    def snapshot(self) -> str:
        """Saves all tokens under a fresh name, and returns the name."""
        with self._whole() as raw:
            return ask(raw.snapshot)

    @contextmanager
    def _whole(self) -> Scope[Any, None, None]:
        """The handle of a context that holds the buffered tokens too: a copy, if there are any."""
        self._live()
        if not self._buffer:
            yield self._raw
            return
        with self.fork() as copy:
            block_on(copy._flush())
            yield copy._raw

    def release(self) -> None:
        """Gives all pages back now. A second call does nothing; any other use is a PieError."""
        if self._raw is not None:
            raw, self._raw = self._raw, None
            self._pages.raw = RELEASED
            raw.destroy()
            raw.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _live(self) -> Any:
        if self._raw is None:
            raise PieError("this context was released")
        return self._raw

    # Filling.

    def system(self, text: str) -> Self:
        """Adds a system message."""
        return self._say(turn(Kind.SYSTEM, _check.text("text", text)))

    def user(self, text: str) -> Self:
        """Adds a user message."""
        return self._say(turn(Kind.USER, _check.text("text", text)))

    def assistant(self, text: str) -> Self:
        """Adds an assistant's turn, as if the model had said it."""
        return self._say(turn(Kind.ASSISTANT, _check.text("text", text)))

    def assistant_calls(self, text: str, calls: Iterable[tools.Call]) -> Self:
        """Adds an assistant's turn that called tools, written as the model's template writes calls.
        `text` is what the model said before the calls; it may be empty. Give the answers next, with
        `answer_call`."""
        text = _check.text("text", text)
        return self._say(turn(Kind.ASSISTANT, text, tools=tools.call_texts(calls)))

    def cue(self) -> Self:
        """Starts the model's turn."""
        self._say(turn(Kind.CUE))
        self._cued_at = self.seq_len + len(self._buffer)
        return self

    def _open_turn(self) -> None:
        """Starts the model's turn, unless `cue` has just done so."""
        if self._cued_at != self.seq_len + len(self._buffer):
            self.cue()

    def _say(self, said: Any) -> Self:
        self._live()
        self._turns.add(self.model, self._buffer, said)
        self._cued_at = None
        return self

    def seal(self) -> Self:
        """Closes the model's turn."""
        self._live()
        self._turns.seal()
        self._buffer.extend(wit_chat.seal(self.model._raw))
        return self

    def append(self, tokens: Iterable[int]) -> Self:
        """Adds token ids."""
        self._live()
        self._turns.settle()
        self._buffer.extend(_check.tokens("tokens", tokens))
        return self

    def fill(self, text: str) -> Self:
        """Adds plain text, outside any chat turn."""
        return self.append(self.model.tokenizer().encode(text))

    fill_tokens = append

    def equip_tools(self, schemas: Iterable[Any]) -> Self:
        """Tells the model which tools it has."""
        return self._say(turn(Kind.TOOLS, tools=tools.texts(schemas)))

    def answer_tool(self, name: str, value: Any) -> Self:
        """Gives a tool's answer back."""
        return self._say(turn(Kind.ANSWER, tools.text(value), name=_check.text("name", name)))

    def answer_call(self, call: tools.Call, value: Any) -> Self:
        """Gives a tool's answer to one of several calls back: templates that write the ids of calls
        write the id of this one."""
        _check.instance("call", call, tools.Call, "tools.Call makes one")
        ids = [call.id] if call.id else []
        return self._say(turn(Kind.ANSWER, tools.text(value), name=call.name, tools=ids))

    @waits
    async def flush(self) -> None:
        """Runs the model over the buffer and commits full pages. A failure changes nothing."""
        await self._flush()

    async def _flush(self) -> None:
        self._live()
        self._turns.settle()
        count = len(self._buffer)
        if not count:
            return
        start = self.seq_len
        with wit_inference.ForwardPass(self.model._raw) as raw:
            raw.context(self._live())
            raw.input_tokens(self._buffer, list(range(start, start + count)))
            await run_pass(self, raw.execute, count, 0)
        del self._buffer[:count]
        self._pages.commit()

    # Inspection.

    @property
    def page_size(self) -> int:
        """The number of tokens in a page."""
        self._live()
        return self._pages.page_size

    @property
    def seq_len(self) -> int:
        """Tokens in the cache, committed and working; the buffer does not count."""
        self._live()
        return self._pages.seq_len

    @property
    def cached_tokens(self) -> int:
        """How many of the tokens that were flushed or given to a generation were found in the
        engine's prefix cache, and not computed. A fork begins with 0."""
        return caching.cached_tokens(self._live())

    def buffer(self) -> list[int]:
        """Tokens that are not flushed yet."""
        self._live()
        return self._buffer.copy()

    def truncate(self, n: int) -> None:
        """Drops the last `n` tokens."""
        self._live()
        if _check.whole("n", n) > self.seq_len:
            held = self.seq_len
            raise ValueError(
                f"n must be at most {held}, the tokens that the context holds, not {n}"
            )
        self._turns.settle()
        self._cued_at = None
        if n:
            ask(fallible.truncate_working_page_tokens, self._raw, n)
            self._pages.sync()

    def inner(self) -> RawContext:
        """The pages of this context, for passes and rollbacks of your own."""
        self._live()
        return RawContext(self)

    # Scheduling.

    def set_bid(self, value: float) -> None:
        """Bids `value` credits per page in the next pass. Passes after it bid as before."""
        ask(bidding.once, self._live(), _check.number("value", value))

    @contextmanager
    def idle(self) -> Scope[None, None, None]:
        """Bids nothing in this scope, then as before: `with ctx.idle(): await something_slow()`."""
        raw = self._live()
        if not self._idle:
            ask(bidding.idle, raw, True)
        self._idle += 1
        try:
            yield
        finally:
            self._idle -= 1
            if not self._idle and self._raw is not None:
                ask(bidding.idle, self._raw, False)

    def suspend(self) -> None:
        """Gives the pages back until the next pass, which restores them."""
        ask(self._live().suspend)

    # Running.

    def forward(self) -> Forward:
        """A pass of your own."""
        self._live()
        return Forward(self)

    @overload
    def generate(self, sampler: Sampler, **options: Unpack[GenerateOptions]) -> Generator: ...

    @overload
    def generate(
        self,
        sampler: Sampler,
        *,
        decode: Literal[True],
        reasoning: bool = False,
        tool_use: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> EventStream: ...

    def generate(
        self,
        sampler: Sampler,
        *,
        decode: bool = False,
        reasoning: bool = False,
        tool_use: bool = False,
        **options: Any,
    ) -> Generator | EventStream:
        """A `Generator` (the options are there); with `decode=True`, an `EventStream` over it."""
        if (reasoning or tool_use) and not decode:
            raise ValueError("reasoning= and tool_use= need decode=True, which gives events")
        self._live()
        generator = Generator(self, sampler, **options)
        if decode:
            return EventStream(generator, reasoning=reasoning, tool_use=tool_use)
        return generator

    def generate_text(
        self, sampler: Sampler | None = None, **options: Unpack[GenerateOptions]
    ) -> str:
        """Generates and returns the text, blocking until it is there."""
        self._live()
        generator = Generator(self, Sampler.top_p() if sampler is None else sampler, **options)
        return block_on(generator._collect_text())
