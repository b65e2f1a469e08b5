"""Generator: the public face of the generation loop (`_step.py` is the loop)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypedDict, cast

from wit_world.imports import chat as wit_chat

from . import _check
from ._async import block_on, waits
from ._chain import run
from ._shape import shape_of
from ._step import StepLoop
from ._thoughts import Thoughts, thoughts_of
from .adapter import MADE_BY, Adapter
from .chat import Decoder, Event
from .constraint import AnyJson, Ebnf, JsonSchema, as_constraint
from .errors import PieError
from .grammar import Grammar
from .output import Output, ProbeHandle
from .probes import Probe, raw_of
from .sampler import Sampler
from .spec import Speculator

if TYPE_CHECKING:
    from .context import Context


class GenerateOptions(TypedDict, total=False):
    """The keyword arguments of `ctx.generate`, for editors; `Generator` says what they mean."""

    max_tokens: int | None
    """Ends the generation after this many accepted tokens; None sets no limit."""
    stop: Iterable[int] | None
    """Token ids that also end the generation, beside the model's own."""
    constrain: Any
    """A Constraint, a Schema or a Grammar, or a list of them."""
    logit_mask: list[int] | None
    """A BRLE mask for every step."""
    speculator: Speculator | None
    """A drafter of your own."""
    system_speculation: bool
    """Whether the engine drafts; False by default."""
    adapter: Adapter | None
    """An adapter for every pass."""
    zo_seed: int | None
    """The seed that perturbs the adapter in every pass."""
    horizon: int | None
    """How many tokens are expected, for bids."""
    seed: int | None
    """Makes the choices reproducible: step i draws from seed + i."""
    auto_flush: bool
    """Whether the model's turn is opened first; True by default."""


class Generator(StepLoop):
    """Made by `ctx.generate(sampler, **options)`; driven by a collector or `async for step in g`.

    Options:
        max_tokens: ends the generation after this many accepted tokens.
        stop: ids that also end it, beside the model's own, which end a turn or the text.
        constrain: a Constraint or Schema, or a list of them.
        logit_mask: a BRLE mask for every step.
        speculator, system_speculation: your drafter, or the engine's.
        adapter, zo_seed: apply to every pass.
        horizon: the expected length, for bids.
        seed: makes the choices reproducible; step i draws from seed + i.
        auto_flush: opens the model's turn (`ctx.cue()`) now.

    Afterwards the last token waits in the context's buffer, so that a conversation simply goes on
    with `ctx.seal()` or `ctx.user(...)`.
    """

    def __init__(
        self,
        ctx: Context,
        sampler: Sampler,
        *,
        max_tokens: int | None = None,
        stop: Iterable[int] | None = None,
        constrain: Any = None,
        logit_mask: list[int] | None = None,
        speculator: Speculator | None = None,
        system_speculation: bool = False,
        adapter: Adapter | None = None,
        zo_seed: int | None = None,
        horizon: int | None = None,
        seed: int | None = None,
        auto_flush: bool = True,
    ) -> None:
        if speculator is not None and system_speculation:
            raise ValueError("speculator and system_speculation exclude each other")
        if speculator is not None:
            methods = ("draft", "accept", "rollback", "reset")
            _check.with_methods("speculator", speculator, methods, "a Speculator")
        super().__init__(ctx, sampler)
        self._limit = None if max_tokens is None else _check.whole("max_tokens", max_tokens)
        self._speculator = speculator
        self._system_speculation = system_speculation
        if adapter is not None:
            _check.instance("adapter", adapter, Adapter, MADE_BY)
        self._adapter = adapter
        self._zo_seed = None if zo_seed is None else _check.zo_seed("zo_seed", zo_seed)
        self._horizon = None if horizon is None else _check.whole("horizon", horizon)
        if seed is not None:
            self._seed = _check.seed("seed", seed)
        self._open_step = False
        self._thinks_first = False

        if auto_flush:
            ctx.cue()
        self._stop = frozenset(wit_chat.stop_tokens(ctx.model._raw))
        if stop is not None:
            self._stop |= frozenset(_check.tokens("stop", stop))
        if logit_mask:
            self._static_mask = _check.tokens("logit_mask", logit_mask)
        if constrain is not None:
            several = isinstance(constrain, (list, tuple))
            for given in cast("Iterable[Any]", constrain) if several else (constrain,):
                self._constraints.append(as_constraint("constrain", given, ctx.model))

    # Builders.

    def max_tokens(self, n: int) -> Generator:
        """Ends the generation after `n` accepted tokens."""
        self._limit = _check.whole("n", n)
        self._expects_anew = True
        return self

    def stop(self, tokens: Iterable[int]) -> Generator:
        """Replaces the stop ids, the model's own included; `[]` goes on past the end of a turn."""
        self._stop = frozenset(_check.tokens("tokens", tokens))
        return self

    def add_stop(self, tokens: Iterable[int]) -> Generator:
        """Adds to the stop ids."""
        self._stop |= frozenset(_check.tokens("tokens", tokens))
        return self

    def constrain(self, c: Any) -> Generator:
        """Adds a Constraint or a Schema; all of them hold together."""
        self._constraints.append(as_constraint("c", c, self._ctx.model))
        self._mask = None
        return self

    def think_first(self) -> Generator:
        """Lets a model that reasons think before the document of `collect_json`. A model whose turn
        begins with its thoughts always does."""
        self._thinks_first = True
        return self

    def horizon(self, n: int) -> Generator:
        """Says how many tokens you expect, for the bids."""
        self._horizon = _check.whole("n", n)
        self._expects_anew = True
        return self

    def adapter(self, a: Adapter) -> Generator:
        """Applies an adapter to every pass."""
        _check.instance("a", a, Adapter, MADE_BY)
        self._adapter = a
        return self

    def zo_seed(self, seed: int) -> Generator:
        """Perturbs the adapter by an Evolution Strategies seed in every pass."""
        self._zo_seed = _check.zo_seed("seed", seed)
        return self

    def seed(self, seed: int) -> Generator:
        """Makes the choices reproducible: step i draws from seed + i."""
        self._seed = _check.seed("seed", seed)
        self._ctx._step_owner = None
        return self

    def probe_each_step(self, idx: int, probe: Probe) -> ProbeHandle:
        """Reads a probe at every step; `idx` 0 is the row that the step samples."""
        self._probes.append((_check.whole("idx", idx), raw_of(probe)))
        return ProbeHandle(len(self._probes) - 1)

    # Inspection.

    @property
    def tokens_generated(self) -> int:
        """How many tokens were accepted so far."""
        return self._count

    @property
    def is_done(self) -> bool:
        """Whether the generation has ended: at a stop token, at the limit, or by a constraint."""
        return self._done

    # Collectors.

    @waits
    async def collect_tokens(self) -> list[int]:
        """Runs to the end and returns all accepted tokens."""
        return await self._collect_tokens()

    @waits
    async def collect_text(self) -> str:
        """Runs to the end and returns the text as the chat decoder shows it."""
        return await self._collect_text()

    @waits
    async def collect_json(
        self, *, schema: Any = None, parse: Callable[[str], Any] | None = None
    ) -> Any:
        """Runs until a JSON document is complete, and returns it. `schema` is a JSON Schema (text
        or dict), a Schema, a type (a dataclass, a TypedDict, an Enum, `list[int]`, …: the value
        is one), or a class like pydantic's models; without it, any JSON. `parse` is given the
        text. A model that reasons may think before it: see `think_first`."""
        if parse is not None and not callable(parse):
            raise TypeError(f"parse must be a function of the text, not {parse!r}")
        shape = shape_of(schema)
        thoughts = self._thoughts_before(shape.schema)
        if thoughts is None:
            self.constrain(shape.schema)
        else:
            whole = "{}" if isinstance(shape.schema, AnyJson) else shape.schema.schema
            source = _check.schema("schema", whole)
            Grammar.from_json_schema(source)  # says what is wrong with it
            self.constrain(Ebnf(thoughts.grammar(source)))
        tokens = await self._collect_tokens()
        model = self._ctx.model
        if thoughts is None:
            text = model.tokenizer().decode(tokens, skip_special_tokens=True)
        else:
            text = thoughts.document(model, tokens)
        try:
            return (shape.parse if parse is None else parse)(text)
        except json.JSONDecodeError as error:
            raise PieError(
                f"the JSON document is not complete after {self._count} tokens: {error} in {text}"
            ) from None
        except RecursionError:
            raise PieError(f"the JSON document is nested too deep to be read: {text}") from None

    def _thoughts_before(self, schema: Any) -> Thoughts | None:
        """The marks of thoughts that may come before a document of this schema."""
        if not isinstance(schema, (AnyJson, JsonSchema)):
            return None
        thoughts = thoughts_of(self._ctx.model)
        return thoughts if thoughts and (thoughts.begun or self._thinks_first) else None

    async def _collect_tokens(self) -> list[int]:
        tokens: list[int] = []
        with run(self) as batches:
            while (more := await batches.next()) is not None:
                tokens += more
        return tokens

    async def _collect_text(self) -> str:
        decoder = Decoder(self._ctx.model)
        parts: list[str] = []
        with run(self, wit_chat.stop_tokens(self._ctx.model._raw)) as batches:
            while (tokens := await batches.next()) is not None:
                event = decoder.feed(tokens)
                if isinstance(event, Event.Interrupt):
                    event = decoder.feed([])  # the text around the control token
                match event:
                    case Event.Delta(text):
                        parts.append(text)
                    case Event.Done(text):
                        self._done = True
                        return text
                    case _:
                        pass
        return "".join(parts)

    # Step by step.

    def __aiter__(self) -> Generator:
        return self

    async def __anext__(self) -> GenStep:
        if self._open_step:
            raise PieError("the last step was not executed: `out = await step.execute()`")
        if not self._begin():
            raise StopAsyncIteration
        self._open_step = True
        return GenStep(self)

    def accept(self, tokens: Iterable[int]) -> list[int]:
        """Continues with these tokens: in place of what the step's own sampler chose or, after
        `clear_sampler`, as the step's tokens. Further calls in the same step add to them. They are
        cut like the loop's own; returns those that are left."""
        chosen = _check.tokens("tokens", tokens)
        buffer = self._ctx._buffer
        at = 0 if self._take_back() else len(buffer)
        if self._done:
            return []
        accepted = self._register(chosen)
        buffer[at:at] = accepted
        return accepted

    # The older API: blocking iteration over token lists.

    def __iter__(self) -> Generator:
        return self

    def __next__(self) -> list[int]:
        while self._begin():
            tokens = block_on(self._run()).tokens
            if tokens:
                return tokens
        raise StopIteration

    def text(self) -> str:
        """Blocks until the end and returns the text of all tokens, also of those taken before."""
        block_on(self._collect_text())
        decoder = Decoder(self._ctx.model)
        event = decoder.feed(self._accepted)
        while isinstance(event, Event.Interrupt):
            event = decoder.feed([])
        return event.text if isinstance(event, (Event.Delta, Event.Done)) else ""

    def tokens(self) -> list[int]:
        """Blocks until the end and returns all tokens, also those taken before."""
        block_on(self._collect_tokens())
        return self._accepted.copy()


class GenStep:
    """One iteration, not run yet."""

    __slots__ = ("_cleared", "_generator", "_probes")

    def __init__(self, generator: Generator) -> None:
        self._generator: Generator | None = generator
        self._cleared = False
        self._probes: list[tuple[int, Any]] = []

    def clear_sampler(self) -> GenStep:
        """Chooses nothing in this step: read a probe, pick a token, `g.accept([token])`."""
        self._cleared = True
        return self

    def probe(self, idx: int, probe: Probe) -> ProbeHandle:
        """Reads a probe in this step only; `idx` 0 is the row that the step samples."""
        if self._generator is None:
            raise PieError("this step has been executed")
        self._probes.append((_check.whole("idx", idx), raw_of(probe)))
        return ProbeHandle(len(self._generator._probes) + len(self._probes) - 1)

    @waits
    async def execute(self) -> Output:
        """Runs the pass and folds the result into the generator's state."""
        if self._generator is None:
            raise PieError("this step has been executed")
        generator, self._generator = self._generator, None
        generator._open_step = False
        return await generator._run(self)


TokenStream = Generator  # the older name
